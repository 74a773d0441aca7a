// A caller on @strands-agents/sdk, whose A2AAgent wraps a remote agent:
// version 0.3, any binding of the @a2a-js/sdk client under it.
//
// A2AAgent always streams, and returns the final text alone; the ids printed
// come from the events that it passes on.
import { A2AAgent } from '@strands-agents/sdk/a2a';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { clientOptions, run, Unsupported } from './lib/program.mjs';
import { play, turn } from './lib/scenarios.mjs';
import { view } from './lib/views03.mjs';

const TRANSPORTS = {
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
  GRPC: GrpcTransportFactory,
};

await run(async () => {
  const { url, binding, version, scenario, count } = clientOptions();
  const Transport = TRANSPORTS[binding];
  if (!Transport || version !== '0.3') {
    throw new Unsupported(`@strands-agents/sdk 1.19 has no ${binding} in version ${version}`);
  }
  const remote = new A2AAgent({ url, clientFactory: new ClientFactory({ transports: [new Transport()] }) });

  const send = async (text) => {
    const events = remote.stream(text);
    let last = {};
    let step = await events.next();
    for (; !step.done; step = await events.next()) {
      if (step.value.type === 'a2aStreamUpdateEvent') {
        last = { ...last, ...defined(view(step.value.event)) };
      }
    }
    return { ...last, kind: last.taskId ? 'task' : 'message', text: step.value.toString() };
  };
  const agent = {
    send,
    stream: async function* stream(text) {
      for await (const event of remote.stream(text)) {
        if (event.type === 'a2aStreamUpdateEvent') {
          yield view(event.event);
        }
      }
    },
    // A2AAgent keeps no conversation: turn 2 names no context.
    fanout: async (calls) => {
      await turn(agent, 'turn 1', calls, (n) => send(`task ${n}`));
      await turn(agent, 'turn 2', calls, (n) => send(`task ${calls + n}`));
    },
    lacks: { ask: 'A2AAgent sends no task id: an answer would be a new task' },
    failure: (err) => ({ error: err.message, code: err.code }),
  };
  await play(scenario, agent, { count });
});

function defined(object) {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
