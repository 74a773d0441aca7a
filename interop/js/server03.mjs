// An A2A agent on @a2a-js/sdk 0.3: JSON-RPC, HTTP+JSON and gRPC, version 0.3 alone.
import express from 'express';
import * as grpc from '@grpc/grpc-js';
import { AGENT_CARD_PATH } from '@a2a-js/sdk';
import { DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService, UserBuilder as GrpcUserBuilder } from '@a2a-js/sdk/server/grpc';
import { chunks, SlowTasks, wanted } from './lib/agent.mjs';
import { ready, run, serverOptions, Unsupported } from './lib/program.mjs';

/** The lab's agent: what it does is in lib/agent.mjs, how 0.3 publishes it is here. */
class Echo {
  #slow = new SlowTasks();

  async execute({ userMessage, task, taskId, contextId }, bus) {
    const text = userMessage.parts.map((p) => (p.kind === 'text' ? p.text : '')).join('');
    const kind = wanted(text, task !== undefined);
    if (kind === 'message') {
      bus.publish({ ...agentSays(`echo: ${text}`), contextId });
      bus.finished();
      return;
    }

    const status = (state, { says, final = false } = {}) =>
      bus.publish({
        kind: 'status-update',
        taskId,
        contextId,
        status: { state, timestamp: now(), ...(says && { message: { ...agentSays(says), taskId, contextId } }) },
        final,
      });
    if (!task) {
      bus.publish({
        kind: 'task',
        id: taskId,
        contextId,
        status: { state: 'submitted', timestamp: now() },
        history: [userMessage],
      });
    }
    // Must stand before "working" goes out: whoever sees that may cancel.
    const woken = kind === 'slow' ? this.#slow.wait(taskId, contextId) : undefined;
    if (kind === 'ask') {
      status('input-required', { says: 'what else?', final: true });
      bus.finished();
      return;
    }
    status('working');
    if (kind === 'fail') {
      status('failed', { says: 'failed as asked', final: true });
      bus.finished();
      return;
    }
    if (await woken) {
      return; // cancelTask has said the last word
    }
    const artifactId = crypto.randomUUID();
    chunks(text).forEach((chunk, i, all) =>
      bus.publish({
        kind: 'artifact-update',
        taskId,
        contextId,
        artifact: { artifactId, name: 'echo', parts: [{ kind: 'text', text: chunk }] },
        append: i > 0,
        lastChunk: i === all.length - 1,
      }));
    status('completed', { final: true });
    bus.finished();
  }

  async cancelTask(taskId, bus) {
    const contextId = this.#slow.stop(taskId);
    if (contextId === undefined) {
      return;
    }
    bus.publish({
      kind: 'status-update',
      taskId,
      contextId,
      status: { state: 'canceled', timestamp: now() },
      final: true,
    });
    bus.finished();
  }
}

function agentSays(text) {
  return { kind: 'message', role: 'agent', messageId: crypto.randomUUID(), parts: [{ kind: 'text', text }] };
}

function now() {
  return new Date().toISOString();
}

function agentCard({ port, grpcPort }) {
  const base = `http://127.0.0.1:${port}`;
  return {
    name: 'js-sdk-0.3',
    description: 'echoes',
    protocolVersion: '0.3.0',
    version: '1.0.0',
    url: `${base}/a2a/jsonrpc`,
    preferredTransport: 'JSONRPC',
    additionalInterfaces: [
      { url: `${base}/a2a/jsonrpc`, transport: 'JSONRPC' },
      { url: `${base}/a2a/rest`, transport: 'HTTP+JSON' },
      ...(grpcPort ? [{ url: `127.0.0.1:${grpcPort}`, transport: 'GRPC' }] : []),
    ],
    capabilities: { streaming: true, pushNotifications: true },
    supportsAuthenticatedExtendedCard: true,
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 'echo', name: 'echo', description: 'echoes', tags: ['test'] }],
  };
}

function listenHTTP(requestHandler, port) {
  const app = express();
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
  app.use('/a2a/jsonrpc', jsonRpcHandler(options));
  app.use('/a2a/rest', restHandler(options));
  return new Promise((resolve, reject) => {
    const server = app.listen(port, '127.0.0.1', (err) => (err ? reject(err) : resolve(server)));
  });
}

async function listenGRPC(requestHandler, port) {
  const server = new grpc.Server();
  server.addService(A2AService, grpcService({ requestHandler, userBuilder: GrpcUserBuilder.noAuthentication }));
  await new Promise((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, grpc.ServerCredentials.createInsecure(), (err) =>
      (err ? reject(err) : resolve()));
  });
  return server;
}

// run() would end the process when main returns; a server lives until SIGTERM.
await run(() => new Promise((_, reject) => serve().catch(reject)));

async function serve() {
  const options = serverOptions();
  if (options.version !== '0.3') {
    throw new Unsupported('@a2a-js/sdk 0.3 serves 0.3 alone; for 1.0 see server.mjs');
  }
  const card = agentCard(options);
  const handler = new DefaultRequestHandler(
    card,
    new InMemoryTaskStore(),
    new Echo(),
    undefined,
    undefined,
    undefined,
    async () => ({ ...card, description: 'echoes, and more' }),
  );
  const http = await listenHTTP(handler, options.port);
  const rpc = options.grpcPort && await listenGRPC(handler, options.grpcPort);
  ready(() => {
    http.close();
    rpc?.forceShutdown();
  });
}
