"""A client on a2a-sdk 0.3: JSON-RPC, HTTP+JSON and gRPC, version 0.3 alone."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable

import grpc.aio
import httpx
from a2a.client import A2ACardResolver, A2AClientError, Client, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskStatusUpdateEvent,
    TextPart,
)

from program import Unsupported, client_options, run
from scenarios import Hook, View, play

BINDINGS = {'JSONRPC', 'HTTP+JSON', 'GRPC'}
TIMEOUT = 30
"""Seconds without a byte from the agent; the SDK's own five are too few on a loaded machine."""


class SdkAgent:
    """The Agent of scenarios.py over two SDK clients: one that streams, one that does not."""

    failures = (A2AClientError, grpc.aio.AioRpcError)

    def __init__(self, unary: Client, streaming: Client) -> None:
        self._unary = unary
        self._streaming = streaming

    async def send(self, text: str, task_id: str = '', context_id: str = '') -> View:
        request = _message(text, task_id, context_id)
        views = [_view(event) async for event in self._unary.send_message(request)]
        return views[-1]

    async def stream(self, text: str) -> AsyncIterator[View]:
        async for event in self._streaming.send_message(_message(text)):
            yield _view(event)

    async def get(self, task_id: str) -> View:
        return _object_view(await self._unary.get_task(TaskQueryParams(id=task_id)))

    async def list(self, context_id: str) -> list[View]:
        raise Unsupported('0.3 lists no tasks')

    async def cancel(self, task_id: str) -> View:
        return _object_view(await self._unary.cancel_task(TaskIdParams(id=task_id)))

    async def subscribe(self, task_id: str) -> AsyncIterator[View]:
        async for event in self._streaming.resubscribe(TaskIdParams(id=task_id)):
            yield _view(event)

    async def push_create(self, task_id: str, hook: Hook) -> Hook:
        config = PushNotificationConfig(id=hook.id, url=hook.url, token=hook.token)
        request = TaskPushNotificationConfig(task_id=task_id, push_notification_config=config)
        return _hook(await self._unary.set_task_callback(request))

    async def push_get(self, task_id: str, hook_id: str) -> Hook:
        request = GetTaskPushNotificationConfigParams(id=task_id, push_notification_config_id=hook_id)
        return _hook(await self._unary.get_task_callback(request))

    async def push_list(self, task_id: str) -> list[Hook]:
        raise Unsupported('the client of a2a-sdk 0.3 lists no push configs')

    async def push_delete(self, task_id: str, hook_id: str) -> None:
        raise Unsupported('the client of a2a-sdk 0.3 deletes no push configs')

    async def card(self) -> str:
        card = await self._unary.get_card()
        return f'{card.name}: {card.description}'

    def failure(self, err: Exception) -> View:
        if isinstance(err.__cause__, httpx.TransportError):
            raise err  # no agent answered: that is a failure of the run
        if isinstance(err, grpc.aio.AioRpcError):
            return {'error': err.details(), 'code': err.code().value[0]}
        return {'error': f'{type(err).__name__}: {err}'}


def _message(text: str, task_id: str = '', context_id: str = '') -> Message:
    return Message(
        message_id=str(uuid.uuid4()),
        role=Role.user,
        parts=[Part(root=TextPart(text=text))],
        task_id=task_id or None,
        context_id=context_id or None,
    )


def _view(event: Message | tuple[Task, TaskStatusUpdateEvent | TaskArtifactUpdateEvent | None]) -> View:
    """The view of what the SDK's streams yield: a message, or the task so far and what came."""
    if isinstance(event, Message):
        return _object_view(event)
    task, update = event
    return _object_view(update or task)


def _object_view(event: Message | Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> View:
    match event:
        case Message():
            return {
                'kind': 'message',
                'text': _text(event.parts),
                'contextId': event.context_id,
                'taskId': event.task_id,
            }
        case Task():
            parts = [part for artifact in event.artifacts or [] for part in artifact.parts]
            said = event.status.message.parts if event.status.message else []
            return {
                'kind': 'task',
                'state': event.status.state.value,
                'text': _text(parts or said),
                'contextId': event.context_id,
                'taskId': event.id,
            }
        case TaskStatusUpdateEvent():
            return {
                'kind': 'status',
                'state': event.status.state.value,
                'text': _text(event.status.message.parts if event.status.message else []),
                'contextId': event.context_id,
                'taskId': event.task_id,
            }
        case TaskArtifactUpdateEvent():
            return {
                'kind': 'artifact',
                'text': _text(event.artifact.parts),
                'contextId': event.context_id,
                'taskId': event.task_id,
            }
        case _:
            raise ValueError(f'an event of unknown kind {type(event)}')


def _text(parts: Iterable[Part]) -> str:
    return ''.join(part.root.text for part in parts if isinstance(part.root, TextPart))


def _hook(config: TaskPushNotificationConfig) -> Hook:
    hook = config.push_notification_config
    return Hook(hook.id or '', hook.url, hook.token or '', config.task_id)


def _url(card: AgentCard, binding: str) -> str:
    """Where the card says that the binding is served."""
    served = {i.transport: i.url for i in card.additional_interfaces or []}
    served.setdefault(card.preferred_transport or 'JSONRPC', card.url)
    if binding not in served:
        raise ValueError(f"the agent's card offers no {binding}, only {', '.join(served)}")
    return served[binding]


async def main() -> None:
    options = client_options()
    if options.binding not in BINDINGS or options.version != '0.3':
        raise Unsupported(f'a2a-sdk 0.3 has no {options.binding} in version {options.version}')
    async with httpx.AsyncClient(timeout=TIMEOUT) as http:

        def client(*, streaming: bool) -> Client:
            config = ClientConfig(
                streaming=streaming,
                httpx_client=http,
                grpc_channel_factory=lambda url: channel,
                supported_transports=[options.binding],
            )
            return ClientFactory(config).create(card)

        card = await A2ACardResolver(http, options.url).get_agent_card()
        # One channel for all calls, as the errors scenario wants it.
        url = _url(card, options.binding)
        channel = grpc.aio.insecure_channel(url) if options.binding == 'GRPC' else None
        await play(options.scenario, SdkAgent(client(streaming=False), client(streaming=True)), options.count)


if __name__ == '__main__':
    run(main)
