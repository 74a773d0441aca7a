// What gets printed of the objects of A2A 0.3, as @a2a-js/sdk 0.3 and the
// frameworks built on it hand them over.

/** The view of a message, a task, a status or an artifact event. */
export function view(event) {
  const { contextId, status } = event;
  const state = status?.state;
  switch (event.kind) {
    case 'message':
      return { kind: 'message', text: textOf(event.parts), contextId, taskId: event.taskId };
    case 'task': {
      const artifacts = event.artifacts ?? [];
      const text = artifacts.length > 0 ? textOf(artifacts.flatMap((a) => a.parts)) : textOf(status?.message?.parts);
      return { kind: 'task', state, text, contextId, taskId: event.id };
    }
    case 'status-update':
      return { kind: 'status', state, text: textOf(status?.message?.parts), contextId, taskId: event.taskId };
    case 'artifact-update':
      return { kind: 'artifact', text: textOf(event.artifact.parts), contextId, taskId: event.taskId };
    default:
      throw new Error(`an event of unknown kind ${event.kind}`);
  }
}

function textOf(parts) {
  return (parts ?? []).map((p) => (p.kind === 'text' ? p.text : '')).join('');
}
