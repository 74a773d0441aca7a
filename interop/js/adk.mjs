// A coordinator on @google/adk (JavaScript) whose remote agent is a
// RemoteA2AAgent: version 0.3, any binding of the @a2a-js/sdk client under it.
//
// No model is involved: a coordinator of our own calls the remote agent. What
// is printed is what ADK makes of the answers, so a call is one line: its
// text, and the ids that ADK keeps in the event's metadata.
import { BaseAgent, InMemoryRunner, LogLevel, setLogLevel } from '@google/adk';
import { RemoteA2AAgent } from '@google/adk/a2a';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { clientOptions, print, run, Unsupported } from './lib/program.mjs';
import { play } from './lib/scenarios.mjs';

const TRANSPORTS = {
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
  GRPC: GrpcTransportFactory,
};
const USER = 'user';

/** Calls one remote agent `calls` times at once in each invocation. */
class Coordinator extends BaseAgent {
  constructor(remote, calls) {
    super({ name: 'coordinator', subAgents: [remote] });
    this.remote = remote;
    this.calls = calls;
    this.answers = [];
  }

  async *runAsyncImpl(context) {
    this.answers = await Promise.all(
      Array.from({ length: this.calls }, () => collect(this.remote.runAsync(context))));
    for (const events of this.answers) {
      yield* events;
    }
  }
}

async function collect(events) {
  const all = [];
  for await (const event of events) {
    all.push(event);
  }
  return all;
}

/** A runner with one session, in which say() is one turn of the user. */
async function conversation(agent) {
  const runner = new InMemoryRunner({ agent, appName: 'interop' });
  const session = await runner.sessionService.createSession({ appName: 'interop', userId: USER });
  return (text) =>
    runner.runAsync({
      userId: USER,
      sessionId: session.id,
      newMessage: { role: 'user', parts: [{ text }] },
    });
}

/** One ADK event as a line. */
function eventView(event) {
  const metadata = event.customMetadata ?? {};
  const response = metadata['a2a:response'];
  return {
    kind: event.errorMessage ? 'error' : LINE_KINDS[response?.kind] ?? 'none',
    state: response?.status?.state,
    text: textOf(event),
    error: event.errorMessage,
    contextId: metadata['a2a:context_id'],
    taskId: metadata['a2a:task_id'],
  };
}

const LINE_KINDS = { message: 'message', task: 'task', 'status-update': 'status', 'artifact-update': 'artifact' };

/** The events of one call as a line: ADK's final text, and the ids that came with it. */
function callView(events) {
  const views = events.map(eventView);
  const error = views.find((v) => v.error)?.error;
  const last = views.findLast((v) => v.contextId) ?? {};
  return {
    kind: error ? 'error' : last.taskId ? 'task' : 'message',
    // Partial events come again, joined.
    text: events.filter((e) => !e.partial).map(textOf).join(''),
    error,
    contextId: last.contextId,
    taskId: last.taskId,
  };
}

function textOf(event) {
  return (event.content?.parts ?? []).map((p) => p.text ?? '').join('');
}

await run(async () => {
  const { url, binding, version, scenario, count } = clientOptions();
  const Transport = TRANSPORTS[binding];
  if (!Transport || version !== '0.3') {
    throw new Unsupported(`@google/adk 2.0 has no ${binding} in version ${version}`);
  }
  setLogLevel(LogLevel.ERROR);
  const remote = new RemoteA2AAgent({
    name: 'remote',
    agentCard: url,
    clientFactory: new ClientFactory({ transports: [new Transport()] }),
  });
  await play(scenario, {
    send: async (text) => callView(await collect((await conversation(remote))(text))),
    stream: async function* stream(text) {
      for await (const event of (await conversation(remote))(text)) {
        yield eventView(event);
      }
    },
    fanout: async (calls) => {
      const coordinator = new Coordinator(remote, calls);
      const say = await conversation(coordinator);
      for (const turn of [1, 2]) {
        await collect(say(`task ${turn}`));
        coordinator.answers.forEach((events) => print(`turn ${turn}`, callView(events)));
      }
    },
    failure: (err) => ({ error: err.message }),
    lacks: {
      ask: 'RemoteA2AAgent resumes a task only to answer a function call that the remote agent left open; '
        + 'a question in words is answered by a new task in the same context',
    },
  }, { count });
});
