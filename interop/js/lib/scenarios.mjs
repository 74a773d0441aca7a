// The scenarios of the lab, told once for every A2A client SDK.
//
// A scenario drives an agent through an Adapter, the few lines that differ
// between SDK versions:
//
//   send(text, {taskId, contextId})    → view         one blocking call
//   stream(text)                       → async views  one streaming call
//   get(taskId), cancel(taskId)        → view
//   list(contextId)                    → views of the tasks
//   subscribe(taskId)                  → async views
//   push.create|get|list|delete        → config, config, configs, nothing
//   card()                             → extended card
//   failure(err)                       → {error, code}: what the SDK makes of an agent's error
//
// A view is what gets printed of an answer: {kind, state, text, contextId, taskId}.
// What an adapter lacks, its SDK cannot do: the scenarios that need it are
// Unsupported. An adapter may bring its own `ask` and `fanout` where the SDK
// carries a conversation on by itself, and `lacks`, {scenario: reason}, for what
// its methods could do but not as the scenario means it.
import { print, FAN_OUT, Unsupported } from './program.mjs';

/** Where push notifications would go: the discard port, where nothing listens. */
const HOOK = { id: 'hook-1', url: 'http://127.0.0.1:9/hook', token: 't' };

/** How long a resubscription may stay silent before the task is cancelled all the same. */
const SILENCE_MS = 2000;

/** Runs one scenario; options.count widens `fanout` and repeats `errors`. */
export async function play(name, adapter, options = {}) {
  const scenario = Object.hasOwn(SCENARIOS, name) ? SCENARIOS[name] : undefined;
  if (!scenario) {
    throw new Unsupported(`no scenario ${name}`);
  }
  if (adapter.lacks?.[name]) {
    throw new Unsupported(adapter.lacks[name]);
  }
  const missing = NEEDS[name].filter((method) => !adapter[method]);
  if (missing.length > 0) {
    throw new Unsupported(`${name}: this SDK has no ${missing.join(', no ')} here`);
  }
  await scenario(adapter, options);
}

/** The adapter's methods that a scenario cannot do without. */
const NEEDS = {
  message: ['send'],
  task: ['send'],
  stream: ['stream'],
  ask: ['send'],
  get: ['send', 'get'],
  list: ['send', 'list'],
  cancel: ['stream', 'cancel'],
  subscribe: ['stream', 'subscribe', 'cancel'],
  push: ['stream', 'push', 'cancel'],
  card: ['card'],
  errors: ['get'],
  fanout: ['send'],
};

const SCENARIOS = {
  async message(agent) {
    await step(agent, 'send', () => agent.send('message hi'));
  },

  async task(agent) {
    await step(agent, 'send', () => agent.send('task hi'));
  },

  async stream(agent) {
    await reading(agent, 'stream', async () => {
      for await (const view of agent.stream('task hi')) {
        print('stream', view);
      }
    });
  },

  async ask(agent) {
    if (agent.ask) {
      await agent.ask();
      return;
    }
    const asked = await step(agent, 'send', () => agent.send('ask x'));
    if (asked) {
      const { taskId, contextId } = asked;
      await step(agent, 'answer', () => agent.send('more', { taskId, contextId }));
    }
  },

  async get(agent) {
    const sent = await step(agent, 'send', () => agent.send('task hi'));
    if (sent) {
      await step(agent, 'get', () => agent.get(sent.taskId));
    }
  },

  async list(agent) {
    const sent = await step(agent, 'send', () => agent.send('task hi'));
    if (sent) {
      await step(agent, 'list', async () => {
        const tasks = await agent.list(sent.contextId);
        return {
          kind: 'tasks',
          text: tasks.map((t) => `${t.state} ${t.text}`).join('; '),
          contextId: [...new Set(tasks.map((t) => t.contextId))].join(' '),
          taskId: tasks.map((t) => t.taskId).join(' '),
        };
      });
    }
  },

  async cancel(agent) {
    await whileWorking(agent, (task) => step(agent, 'cancel', () => agent.cancel(task.taskId)));
  },

  async subscribe(agent) {
    // The first stream stays open and unread: some servers end the task's
    // events for everyone when the stream that began it goes.
    const stream = agent.stream('slow x');
    const task = await firstWorking(agent, stream);
    if (!task) {
      return;
    }
    await reading(agent, 'subscribe', async () => {
      const events = agent.subscribe(task.taskId)[Symbol.asyncIterator]();
      // 0.3 does not say whether a resubscription begins with the task as it
      // stands. A server that says nothing must not hold up the scenario.
      let next = events.next();
      next.catch(() => {});
      const first = await Promise.race([next, after(SILENCE_MS)]);
      if (first) {
        if (first.done) {
          return;
        }
        print('subscribe', first.value);
        next = events.next();
        next.catch(() => {});
      }
      await step(agent, 'cancel', () => agent.cancel(task.taskId));
      for (let event = await next; !event.done; event = await events.next()) {
        print('subscribe', event.value);
      }
    });
  },

  async push(agent) {
    await whileWorking(agent, async ({ taskId }) => {
      await step(agent, 'create', async () => config(await agent.push.create(taskId, HOOK)));
      await step(agent, 'get', async () => config(await agent.push.get(taskId, HOOK.id)));
      await step(agent, 'list', async () => configs(await agent.push.list(taskId)));
      await step(agent, 'delete', async () => {
        await agent.push.delete(taskId, HOOK.id);
        return { kind: 'none' };
      });
      await step(agent, 'list', async () => configs(await agent.push.list(taskId)));
      await step(agent, 'cancel', () => agent.cancel(taskId));
    });
  },

  async card(agent) {
    await step(agent, 'card', async () => {
      const card = await agent.card();
      return { kind: 'card', text: `${card.name}: ${card.description}` };
    });
  },

  async errors(agent, { count = 1 }) {
    for (let i = 0; i < count; i++) {
      await step(agent, 'get', () => agent.get('nope'));
    }
  },

  async fanout(agent, { count = FAN_OUT }) {
    if (agent.fanout) {
      await agent.fanout(count);
      return;
    }
    // A plain SDK keeps no conversation: its user hands back the context id of
    // the answer to carry on.
    const first = await turn(agent, 'turn 1', count, (n) => agent.send(`task ${n}`));
    await turn(agent, 'turn 2', count, (n) =>
      agent.send(`task ${count + n}`, { contextId: first[n - 1]?.contextId }));
  },
};

/** Makes count calls at once and prints their answers in the order of the calls. */
export async function turn(agent, name, count, call) {
  const calls = Array.from({ length: count }, (_, i) => call(i + 1));
  const settled = await Promise.allSettled(calls);
  return settled.map((s) => {
    const view = s.status === 'fulfilled' ? s.value : failed(agent, s.reason);
    print(name, view);
    return view;
  });
}

/** Streams "slow x", acts once it works, and reads the stream to its end. */
async function whileWorking(agent, act) {
  await reading(agent, 'stream', async () => {
    let acted = false;
    for await (const view of agent.stream('slow x')) {
      print('stream', view);
      if (!acted && view.state === 'working') {
        acted = true;
        await act(view);
      }
    }
  });
}

/** Reads a stream up to the first sign of work, and returns that. */
async function firstWorking(agent, stream) {
  return reading(agent, 'stream', async () => {
    const events = stream[Symbol.asyncIterator]();
    for (let e = await events.next(); !e.done; e = await events.next()) {
      print('stream', e.value);
      if (e.value.state === 'working') {
        return e.value;
      }
    }
    return undefined;
  });
}

/** Does one call and prints its answer; undefined when the answer was an error. */
export async function step(agent, name, call) {
  let view;
  try {
    view = await call();
  } catch (err) {
    print(name, failed(agent, err));
    return undefined;
  }
  print(name, view);
  return view;
}

/** Runs what reads a stream; an error of the agent ends it and is printed. */
async function reading(agent, name, read) {
  try {
    return await read();
  } catch (err) {
    print(name, failed(agent, err));
    return undefined;
  }
}

/** The line of an error. What the SDK has no way to do goes on up, and so does a mistake of this program's. */
export function failed(agent, err) {
  if (err instanceof Unsupported || (err instanceof TypeError && !raisedBySDK(err))) {
    throw err;
  }
  return { kind: 'error', ...agent.failure(err) };
}

function raisedBySDK(err) {
  const raisedAt = err.stack?.split('\n').find((line) => line.trimStart().startsWith('at '));
  return raisedAt?.includes('node_modules') ?? false;
}

function after(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function config({ taskId, url, token }) {
  return { kind: 'config', text: `${url} ${token}`, taskId };
}

function configs(list) {
  return { kind: 'configs', text: list.map((c) => `${c.url} ${c.token}`).join('; ') || 'none' };
}
