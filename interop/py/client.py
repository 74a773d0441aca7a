"""A client on a2a-sdk 1.x: JSON-RPC, HTTP+JSON and gRPC, versions 1.0 and 0.3."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import A2AError

from program import Unsupported, client_options, run
from scenarios import Hook, View, play

BINDINGS = {'JSONRPC', 'HTTP+JSON', 'GRPC'}
TIMEOUT = 30
"""Seconds without a byte from the agent; the SDK's own five are too few on a loaded machine."""


class SdkAgent:
    """The Agent of scenarios.py over two SDK clients: one that streams, one that does not."""

    failures = (A2AError,)

    def __init__(self, unary: Client, streaming: Client, version: str) -> None:
        self._unary = unary
        self._streaming = streaming
        self._version = version

    async def send(self, text: str, task_id: str = '', context_id: str = '') -> View:
        request = _request(text, task_id, context_id)
        views = [_view(event) async for event in self._unary.send_message(request)]
        return views[-1]

    async def stream(self, text: str) -> AsyncIterator[View]:
        async for event in self._streaming.send_message(_request(text)):
            yield _view(event)

    async def get(self, task_id: str) -> View:
        return _task_view(await self._unary.get_task(GetTaskRequest(id=task_id)))

    async def list(self, context_id: str) -> list[View]:
        if self._version == '0.3':
            raise Unsupported('0.3 lists no tasks')
        request = ListTasksRequest(context_id=context_id, include_artifacts=True)
        return [_task_view(task) for task in (await self._unary.list_tasks(request)).tasks]

    async def cancel(self, task_id: str) -> View:
        return _task_view(await self._unary.cancel_task(CancelTaskRequest(id=task_id)))

    async def subscribe(self, task_id: str) -> AsyncIterator[View]:
        async for event in self._streaming.subscribe(SubscribeToTaskRequest(id=task_id)):
            yield _view(event)

    async def push_create(self, task_id: str, hook: Hook) -> Hook:
        config = TaskPushNotificationConfig(task_id=task_id, id=hook.id, url=hook.url, token=hook.token)
        return _hook(await self._unary.create_task_push_notification_config(config))

    async def push_get(self, task_id: str, hook_id: str) -> Hook:
        request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=hook_id)
        return _hook(await self._unary.get_task_push_notification_config(request))

    async def push_list(self, task_id: str) -> list[Hook]:
        request = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        answer = await _can(self._unary.list_task_push_notification_configs(request))
        return [_hook(config) for config in answer.configs]

    async def push_delete(self, task_id: str, hook_id: str) -> None:
        request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=hook_id)
        await _can(self._unary.delete_task_push_notification_config(request))

    async def card(self) -> str:
        card = await self._unary.get_extended_agent_card(GetExtendedAgentCardRequest())
        return f'{card.name}: {card.description}'

    def failure(self, err: Exception) -> View:
        if isinstance(err.__cause__, httpx.TransportError):
            raise err  # no agent answered: that is a failure of the run
        return {'error': f'{type(err).__name__}: {err}'}


async def _can(call):
    """Awaits call; what the SDK left out is Unsupported."""
    try:
        return await call
    except NotImplementedError as err:
        raise Unsupported(str(err)) from err


def _request(text: str, task_id: str = '', context_id: str = '') -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=str(uuid.uuid4()),
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
            task_id=task_id,
            context_id=context_id,
        )
    )


def _view(event: StreamResponse) -> View:
    kind = event.WhichOneof('payload')
    match kind:
        case 'message':
            return {
                'kind': 'message',
                'text': _text(event.message.parts),
                'contextId': event.message.context_id,
                'taskId': event.message.task_id,
            }
        case 'task':
            return _task_view(event.task)
        case 'status_update':
            update = event.status_update
            return {
                'kind': 'status',
                'state': _state(update.status),
                'text': _text(update.status.message.parts),
                'contextId': update.context_id,
                'taskId': update.task_id,
            }
        case 'artifact_update':
            return {
                'kind': 'artifact',
                'text': _text(event.artifact_update.artifact.parts),
                'contextId': event.artifact_update.context_id,
                'taskId': event.artifact_update.task_id,
            }
        case _:
            raise ValueError(f'an event of unknown kind {kind}')


def _task_view(task: Task) -> View:
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    return {
        'kind': 'task',
        'state': _state(task.status),
        'text': _text(parts or task.status.message.parts),
        'contextId': task.context_id,
        'taskId': task.id,
    }


def _state(status: TaskStatus) -> str:
    """The state as 0.3 spells it: TASK_STATE_INPUT_REQUIRED is input-required."""
    return TaskState.Name(status.state).removeprefix('TASK_STATE_').lower().replace('_', '-')


def _text(parts: Iterable[Part]) -> str:
    return ''.join(part.text for part in parts)


def _hook(config: TaskPushNotificationConfig) -> Hook:
    return Hook(config.id, config.url, config.token, config.task_id)


def _only(card: AgentCard, binding: str, version: str) -> AgentCard:
    """The card with only the interfaces under test.

    Left to itself the factory takes the newest version of a binding.
    """
    kept = [
        i
        for i in card.supported_interfaces
        if i.protocol_binding == binding and i.protocol_version.startswith(version)
    ]
    if not kept:
        have = ', '.join(f'{i.protocol_binding} {i.protocol_version}' for i in card.supported_interfaces)
        raise ValueError(f"the agent's card offers no {binding} {version}, only {have}")
    only = AgentCard()
    only.CopyFrom(card)
    del only.supported_interfaces[:]
    only.supported_interfaces.extend(kept)
    return only


async def main() -> None:
    options = client_options()
    if options.binding not in BINDINGS or options.version not in ('1.0', '0.3'):
        raise Unsupported(f'a2a-sdk 1.x has no {options.binding} in version {options.version}')
    async with httpx.AsyncClient(timeout=TIMEOUT) as http:

        def client(*, streaming: bool) -> Client:
            config = ClientConfig(
                streaming=streaming,
                httpx_client=http,
                grpc_channel_factory=lambda url: channel,
                supported_protocol_bindings=[options.binding],
            )
            return ClientFactory(config).create(card)

        resolved = await A2ACardResolver(http, options.url).get_agent_card()
        card = _only(resolved, options.binding, options.version)
        # One channel for all calls, as the errors scenario wants it.
        channel = None
        if options.binding == 'GRPC':
            channel = grpc.aio.insecure_channel(card.supported_interfaces[0].url)
        agent = SdkAgent(client(streaming=False), client(streaming=True), options.version)
        await play(options.scenario, agent, options.count)


if __name__ == '__main__':
    run(main)
