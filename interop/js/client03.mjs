// A client on @a2a-js/sdk 0.3: JSON-RPC, HTTP+JSON and gRPC, version 0.3 alone.
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { clientOptions, run, Unsupported } from './lib/program.mjs';
import { play } from './lib/scenarios.mjs';
import { view } from './lib/views03.mjs';

const TRANSPORTS = {
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
  GRPC: GrpcTransportFactory,
};

/** The adapter of lib/scenarios.mjs over an SDK client. Version 0.3 lists no tasks. */
function adapter(client) {
  const request = (text, ids = {}) => ({
    message: {
      kind: 'message',
      messageId: crypto.randomUUID(),
      role: 'user',
      parts: [{ kind: 'text', text }],
      ...(ids.taskId && { taskId: ids.taskId }),
      ...(ids.contextId && { contextId: ids.contextId }),
    },
  });
  return {
    send: async (text, ids) => view(await client.sendMessage(request(text, ids))),
    stream: (text) => views(client.sendMessageStream(request(text))),
    get: async (id) => view(await client.getTask({ id })),
    cancel: async (id) => view(await client.cancelTask({ id })),
    subscribe: (id) => views(client.resubscribeTask({ id })),
    card: () => client.getAgentCard(),
    push: {
      create: async (taskId, config) =>
        flat(await client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: config })),
      get: async (taskId, id) =>
        flat(await client.getTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id })),
      // a2a-go answers null for an empty list.
      list: async (taskId) => ((await client.listTaskPushNotificationConfig({ id: taskId })) ?? []).map(flat),
      delete: (taskId, id) =>
        client.deleteTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id }),
    },
    failure: (err) => ({ error: err.message, code: err.code ?? err.errorResponse?.error?.code }),
  };
}

function flat({ taskId, pushNotificationConfig: { url, token } }) {
  return { taskId, url, token };
}

async function* views(events) {
  for await (const event of events) {
    yield view(event);
  }
}

await run(async () => {
  const { url, binding, version, scenario, count } = clientOptions();
  const Transport = TRANSPORTS[binding];
  if (!Transport || version !== '0.3') {
    throw new Unsupported(`@a2a-js/sdk 0.3 has no ${binding} in version ${version}`);
  }
  const card = await new DefaultAgentCardResolver().resolve(url);
  // With one transport the factory passes over every other interface.
  const factory = new ClientFactory({ transports: [new Transport()] });
  await play(scenario, adapter(await factory.createFromAgentCard(card)), { count });
});
