// A caller on @mastra/core, whose A2AAgent wraps a remote agent: JSON-RPC in
// versions 0.3 and 1.0. Its HTTP is its own, its types are @a2a-js/sdk's.
import { A2AAgent } from '@mastra/core/a2a';
import { clientOptions, run, Unsupported } from './lib/program.mjs';
import { play, step, turn } from './lib/scenarios.mjs';

/** What Mastra returns for a call: its text, and the task or message beneath. */
function resultView({ text, task, message, runId }) {
  return {
    kind: task ? 'task' : 'message',
    state: task?.status.state,
    text,
    contextId: task?.contextId ?? message?.contextId,
    taskId: task?.id ?? message?.taskId,
    runId,
  };
}

function printable({ runId, ...view }) {
  return view;
}

await run(async () => {
  const { url, binding, version, scenario, count } = clientOptions();
  if (binding !== 'JSONRPC' || !['0.3', '1.0'].includes(version)) {
    throw new Unsupported(`@mastra/core 1.71 has no ${binding} in version ${version}`);
  }
  const remote = new A2AAgent({ url, name: 'remote', ...(version === '1.0' && { protocolVersion: '1.0' }) });
  const send = async (text) => printable(resultView(await remote.generate(text)));
  const agent = {
    send,
    stream: async function* stream(text) {
      const output = await remote.stream(text);
      for await (const chunk of output.fullStream) {
        if (chunk.type === 'text-delta') {
          yield { kind: 'artifact', text: chunk.payload.text };
        }
      }
      yield printable(resultView(await output.getResult()));
    },
    ask: async () => {
      let asked;
      await step(agent, 'send', async () => {
        asked = resultView(await remote.generate('ask x'));
        return printable(asked);
      });
      if (asked) {
        await step(agent, 'answer', async () =>
          printable(resultView(await remote.resumeGenerate('more', { runId: asked.runId }))));
      }
    },
    // A2AAgent keeps no conversation: turn 2 names no context.
    fanout: async (calls) => {
      await turn(agent, 'turn 1', calls, (n) => send(`task ${n}`));
      await turn(agent, 'turn 2', calls, (n) => send(`task ${calls + n}`));
    },
    failure: (err) => ({ error: err.message, code: err.code }),
  };
  await play(scenario, agent, { count });
});
