// A caller on the Vercel AI SDK with a2a-ai-provider, which makes a remote
// agent a language model: JSON-RPC in version 0.3.
import { generateText, streamText } from 'ai';
import { a2a } from 'a2a-ai-provider';
import { clientOptions, run, Unsupported } from './lib/program.mjs';
import { play, turn } from './lib/scenarios.mjs';
import { view } from './lib/views03.mjs';

// The provider logs every call to stdout, where our lines go, and the SDK warns
// there that the provider is of an older generation.
console.log = () => {};
globalThis.AI_SDK_LOG_WARNINGS = false;

await run(async () => {
  const { url, binding, version, scenario, count } = clientOptions();
  if (binding !== 'JSONRPC' || version !== '0.3') {
    throw new Unsupported(`a2a-ai-provider 0.5 has no ${binding} in version ${version}`);
  }
  const model = a2a(new URL('.well-known/agent-card.json', url).href);

  const send = async (messages) => {
    const { text, response } = await generateText({ model, messages, maxRetries: 0 });
    return { ...view(response.body), text };
  };
  const user = (text) => [{ role: 'user', content: text }];
  const agent = {
    send: (text) => send(user(text)),
    stream: async function* stream(text) {
      const { fullStream } = streamText({ model, messages: user(text), maxRetries: 0, includeRawChunks: true });
      for await (const part of fullStream) {
        if (part.type === 'raw') {
          yield view(part.rawValue);
        } else if (part.type === 'error') {
          throw part.error;
        }
      }
    },
    // The conversation is the messages; the provider sends the last one alone.
    fanout: async (calls) => {
      const first = await turn(agent, 'turn 1', calls, (n) => send(user(`task ${n}`)));
      await turn(agent, 'turn 2', calls, (n) =>
        send([
          ...user(`task ${n}`),
          { role: 'assistant', content: first[n - 1].text ?? '' },
          ...user(`task ${calls + n}`),
        ]));
    },
    lacks: { ask: 'a2a-ai-provider sends no task id: an answer would be a new task' },
    failure: (err) => ({ error: err.message, code: err.statusCode }),
  };
  await play(scenario, agent, { count });
});
