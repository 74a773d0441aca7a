// What the lab's agents do, apart from how an SDK spells it: the first word of
// a message says what is wanted.

/** What a slow task does of its own accord when nobody cancels it. */
export const SLOW_MS = 60_000;

/** The behaviours that a first word can ask for; any other word is a task. */
const KNOWN = new Set(['message', 'task', 'ask', 'slow', 'fail']);

/** What the text asks for; a follow-up on a task always completes it. */
export function wanted(text, isFollowUp) {
  const word = text.split(/\s/, 1)[0];
  return isFollowUp || !KNOWN.has(word) ? 'task' : word;
}

/** The artifact's text in the two chunks in which it is streamed. */
export function chunks(text) {
  return ['echo: ', text];
}

/** Slow tasks that can be woken early, by task id. */
export class SlowTasks {
  #waiting = new Map();

  /** Waits until the task is stopped (true) or SLOW_MS have passed (false). */
  wait(taskId, contextId) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#end(taskId, false), SLOW_MS);
      timer.unref();
      this.#waiting.set(taskId, { contextId, timer, resolve });
    });
  }

  /** Stops a task and returns its context id; undefined if none waits. */
  stop(taskId) {
    return this.#end(taskId, true);
  }

  #end(taskId, stopped) {
    const task = this.#waiting.get(taskId);
    if (!task) {
      return undefined;
    }
    this.#waiting.delete(taskId);
    clearTimeout(task.timer);
    task.resolve(stopped);
    return task.contextId;
  }
}
