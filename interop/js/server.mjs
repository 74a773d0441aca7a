// An A2A agent on @a2a-js/sdk 1.3: JSON-RPC, HTTP+JSON and gRPC, in version
// 1.0 alone or with the SDK's own 0.3 compatibility beside it.
import express from 'express';
import * as grpc from '@grpc/grpc-js';
import { AGENT_CARD_PATH, Role, TaskState } from '@a2a-js/sdk-v1';
import {
  AgentEvent,
  DefaultPushNotificationSender,
  DefaultRequestHandler,
  InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk-v1/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk-v1/server/express';
import { A2AService, grpcService, UserBuilder as GrpcUserBuilder } from '@a2a-js/sdk-v1/server/grpc';
import { createLegacyAwarePushNotificationSender } from '@a2a-js/sdk-v1/compat/v0_3/server';
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk-v1/compat/v0_3/server/grpc';
import { chunks, SlowTasks, wanted } from './lib/agent.mjs';
import { ready, run, serverOptions, Unsupported } from './lib/program.mjs';

const VERSIONS = { '1.0': ['1.0'], both: ['1.0', '0.3'] };

/** The lab's agent: what it does is in lib/agent.mjs, how 1.3 publishes it is here. */
class Echo {
  #slow = new SlowTasks();

  async execute({ userMessage, task, taskId, contextId }, bus) {
    const text = userMessage.parts.map((p) => (p.content?.$case === 'text' ? p.content.value : '')).join('');
    const kind = wanted(text, task !== undefined);
    if (kind === 'message') {
      bus.publish(AgentEvent.message({ ...agentSays(`echo: ${text}`), contextId }));
      return;
    }

    const status = (state, says) =>
      bus.publish(AgentEvent.statusUpdate({
        taskId,
        contextId,
        status: { state, timestamp: now(), message: says && { ...agentSays(says), taskId, contextId } },
        metadata: undefined,
      }));
    // The SDK wants the task first, of a follow-up too.
    bus.publish(AgentEvent.task(task ?? {
      id: taskId,
      contextId,
      status: { state: TaskState.TASK_STATE_SUBMITTED, timestamp: now(), message: undefined },
      artifacts: [],
      history: [userMessage],
      metadata: undefined,
    }));
    // Must stand before "working" goes out: whoever sees that may cancel.
    const woken = kind === 'slow' ? this.#slow.wait(taskId, contextId) : undefined;
    if (kind === 'ask') {
      status(TaskState.TASK_STATE_INPUT_REQUIRED, 'what else?');
      return;
    }
    status(TaskState.TASK_STATE_WORKING);
    if (kind === 'fail') {
      status(TaskState.TASK_STATE_FAILED, 'failed as asked');
      return;
    }
    if (await woken) {
      return; // cancelTask has said the last word
    }
    const artifactId = crypto.randomUUID();
    chunks(text).forEach((chunk, i, all) =>
      bus.publish(AgentEvent.artifactUpdate({
        taskId,
        contextId,
        artifact: {
          artifactId,
          name: 'echo',
          description: '',
          parts: [textPart(chunk)],
          metadata: undefined,
          extensions: [],
        },
        append: i > 0,
        lastChunk: i === all.length - 1,
        metadata: undefined,
      })));
    status(TaskState.TASK_STATE_COMPLETED);
  }

  async cancelTask(taskId, bus) {
    const contextId = this.#slow.stop(taskId);
    if (contextId === undefined) {
      return;
    }
    bus.publish(AgentEvent.statusUpdate({
      taskId,
      contextId,
      status: { state: TaskState.TASK_STATE_CANCELED, timestamp: now(), message: undefined },
      metadata: undefined,
    }));
  }
}

function textPart(text) {
  return { content: { $case: 'text', value: text }, metadata: undefined, filename: '', mediaType: 'text/plain' };
}

function agentSays(text) {
  return {
    role: Role.ROLE_AGENT,
    messageId: crypto.randomUUID(),
    parts: [textPart(text)],
    taskId: '',
    contextId: '',
    extensions: [],
    metadata: undefined,
    referenceTaskIds: [],
  };
}

function now() {
  return new Date().toISOString();
}

function agentCard({ port, grpcPort }, versions) {
  const base = `http://127.0.0.1:${port}`;
  const endpoints = [
    ['JSONRPC', `${base}/a2a/jsonrpc`],
    ['HTTP+JSON', `${base}/a2a/rest`],
    ...(grpcPort ? [['GRPC', `127.0.0.1:${grpcPort}`]] : []),
  ];
  return {
    name: 'js-sdk-1.3',
    description: 'echoes',
    version: '1.0.0',
    provider: undefined,
    supportedInterfaces: versions.flatMap((protocolVersion) =>
      endpoints.map(([protocolBinding, url]) => ({ url, protocolBinding, tenant: '', protocolVersion }))),
    capabilities: { streaming: true, pushNotifications: true, extensions: [], extendedAgentCard: true },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{
      id: 'echo',
      name: 'echo',
      description: 'echoes',
      tags: ['test'],
      examples: [],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    }],
    signatures: [],
  };
}

function listenHTTP(requestHandler, port, compat) {
  const app = express();
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, ...compat };
  app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler, ...compat }));
  app.use('/a2a/jsonrpc', jsonRpcHandler(options));
  app.use('/a2a/rest', restHandler(options));
  return new Promise((resolve, reject) => {
    const server = app.listen(port, '127.0.0.1', (err) => (err ? reject(err) : resolve(server)));
  });
}

async function listenGRPC(requestHandler, port, legacy) {
  const server = new grpc.Server();
  const options = { requestHandler, userBuilder: GrpcUserBuilder.noAuthentication };
  server.addService(A2AService, grpcService(options));
  if (legacy) {
    server.addService(LegacyA2AService, legacyGrpcService(options));
  }
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
  const versions = VERSIONS[options.version];
  if (!versions) {
    throw new Unsupported('@a2a-js/sdk 1.3 serves 1.0 alone or both; for 0.3 alone see server03.mjs');
  }
  const legacy = versions.includes('0.3');
  const card = agentCard(options, versions);
  const pushes = new InMemoryPushNotificationStore();
  const handler = new DefaultRequestHandler(
    card,
    new InMemoryTaskStore(),
    new Echo(),
    undefined,
    pushes,
    legacy ? createLegacyAwarePushNotificationSender(pushes) : new DefaultPushNotificationSender(pushes),
    async () => ({ ...card, description: 'echoes, and more' }),
  );
  const http = await listenHTTP(handler, options.port, legacy ? { legacyCompat: { enabled: true } } : {});
  const rpc = options.grpcPort && await listenGRPC(handler, options.grpcPort, legacy);
  ready(() => {
    http.close();
    rpc?.forceShutdown();
  });
}
