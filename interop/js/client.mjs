// A client on @a2a-js/sdk 1.3: JSON-RPC, HTTP+JSON and gRPC, versions 1.0 and 0.3.
import { Role, TaskState, taskStateToJSON } from '@a2a-js/sdk-v1';
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk-v1/client';
import { GrpcTransportFactory } from '@a2a-js/sdk-v1/client/grpc';
import { clientOptions, run, Unsupported } from './lib/program.mjs';
import { play } from './lib/scenarios.mjs';

const TRANSPORTS = {
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
  GRPC: GrpcTransportFactory,
};

/** The adapter of lib/scenarios.mjs over an SDK client. */
function adapter(client, version) {
  const request = (text, { taskId = '', contextId = '' } = {}) => ({
    tenant: '',
    message: {
      messageId: crypto.randomUUID(),
      contextId,
      taskId,
      role: Role.ROLE_USER,
      parts: [{ content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: undefined,
    metadata: undefined,
  });
  return {
    send: async (text, ids) => resultView(await client.sendMessage(request(text, ids))),
    stream: (text) => views(client.sendMessageStream(request(text))),
    get: async (id) => taskView(await client.getTask({ tenant: '', id })),
    cancel: async (id) => taskView(await client.cancelTask({ tenant: '', id, metadata: undefined })),
    subscribe: (id) => views(client.resubscribeTask({ tenant: '', id })),
    card: () => client.getAgentCard(),
    push: {
      create: (taskId, { id, url, token }) =>
        client.createTaskPushNotificationConfig({ tenant: '', id, taskId, url, token, authentication: undefined }),
      get: (taskId, id) => client.getTaskPushNotificationConfig({ tenant: '', taskId, id }),
      list: async (taskId) =>
        (await client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' })).configs,
      delete: (taskId, id) => client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id }),
    },
    // The 0.3 transports refuse: that version has no such method.
    list: version === '1.0' && (async (contextId) => {
      const { tasks } = await client.listTasks({
        tenant: '',
        contextId,
        status: TaskState.TASK_STATE_UNSPECIFIED,
        pageToken: '',
        statusTimestampAfter: undefined,
        includeArtifacts: true,
      });
      return tasks.map(taskView);
    }),
    failure: (err) => ({ error: err.message, code: err.envelopeCode ?? err.statusCode ?? err.status ?? err.code }),
  };
}

async function* views(events) {
  for await (const { payload } of events) {
    yield VIEWS[payload.$case](payload.value);
  }
}

function resultView(result) {
  return 'messageId' in result ? messageView(result) : taskView(result);
}

function messageView({ parts, contextId, taskId }) {
  return { kind: 'message', text: textOf(parts), contextId, taskId };
}

function taskView({ id, contextId, status, artifacts }) {
  const text = artifacts.length > 0 ? textOf(artifacts.flatMap((a) => a.parts)) : textOf(status?.message?.parts);
  return { kind: 'task', state: stateOf(status), text, contextId, taskId: id };
}

function statusView({ taskId, contextId, status }) {
  return { kind: 'status', state: stateOf(status), text: textOf(status?.message?.parts), contextId, taskId };
}

function artifactView({ taskId, contextId, artifact }) {
  return { kind: 'artifact', text: textOf(artifact?.parts), contextId, taskId };
}

const VIEWS = { message: messageView, task: taskView, statusUpdate: statusView, artifactUpdate: artifactView };

/** The state as 0.3 spells it: TASK_STATE_INPUT_REQUIRED is input-required. */
function stateOf(status) {
  return status && taskStateToJSON(status.state).replace('TASK_STATE_', '').toLowerCase().replaceAll('_', '-');
}

function textOf(parts) {
  return (parts ?? []).map((p) => (p.content?.$case === 'text' ? p.content.value : '')).join('');
}

await run(async () => {
  const { url, binding, version, scenario, count } = clientOptions();
  const Transport = TRANSPORTS[binding];
  if (!Transport || !['1.0', '0.3'].includes(version)) {
    throw new Unsupported(`@a2a-js/sdk 1.3 has no ${binding} in version ${version}`);
  }
  const legacyCompat = { enabled: version === '0.3' };
  const card = await new DefaultAgentCardResolver({ legacyCompat }).resolve(url);
  // Left to itself the factory takes the newest version of any binding that it
  // knows. One interface is under test, so it is shown no other.
  const offered = card.supportedInterfaces;
  card.supportedInterfaces = offered.filter((i) =>
    i.protocolBinding === binding && i.protocolVersion.startsWith(version));
  if (card.supportedInterfaces.length === 0) {
    const have = offered.map((i) => `${i.protocolBinding} ${i.protocolVersion}`).join(', ');
    throw new Error(`the agent's card offers no ${binding} ${version}, only ${have}`);
  }
  const factory = new ClientFactory({ transports: [new Transport({ legacyCompat })] });
  await play(scenario, adapter(await factory.createFromAgentCard(card), version), { count });
});
