"""The scenarios of the lab, told once for every A2A client SDK.

A scenario drives an agent through an Agent, the few lines that differ between
SDK versions. What gets printed of an answer is a View: kind, state, text,
contextId, taskId.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from program import FAN_OUT, Unsupported, emit

SILENCE = 0.5
"""Seconds a resubscription may stay silent before the task is cancelled all the same."""

View = dict[str, Any]


@dataclass(frozen=True)
class Hook:
    """A push notification config."""

    id: str
    url: str
    token: str
    task_id: str = ''


HOOK = Hook('hook-1', 'http://127.0.0.1:9/hook', 't')
"""Where push notifications would go: the discard port, where nothing listens."""


class Agent(Protocol):
    """An agent as one SDK's client sees it.

    Methods raise one of `failures` for an error that the agent answered, and
    Unsupported for what the SDK has no way to do.
    """

    failures: tuple[type[Exception], ...]

    async def send(self, text: str, task_id: str = '', context_id: str = '') -> View: ...
    def stream(self, text: str) -> AsyncIterator[View]: ...
    async def get(self, task_id: str) -> View: ...
    async def list(self, context_id: str) -> list[View]: ...
    async def cancel(self, task_id: str) -> View: ...
    def subscribe(self, task_id: str) -> AsyncIterator[View]: ...
    async def push_create(self, task_id: str, hook: Hook) -> Hook: ...
    async def push_get(self, task_id: str, hook_id: str) -> Hook: ...
    async def push_list(self, task_id: str) -> list[Hook]: ...
    async def push_delete(self, task_id: str, hook_id: str) -> None: ...
    async def card(self) -> str: ...
    def failure(self, err: Exception) -> View: ...


async def play(name: str, agent: Agent, count: int | None) -> None:
    """Runs one scenario; count widens `fanout` and repeats `errors`."""
    scenario = _SCENARIOS.get(name)
    if scenario is None:
        raise Unsupported(f'no scenario {name}')
    await scenario(agent, count)


async def _message(agent: Agent, _: int | None) -> None:
    await _step(agent, 'send', lambda: agent.send('message hi'))


async def _task(agent: Agent, _: int | None) -> None:
    await _step(agent, 'send', lambda: agent.send('task hi'))


async def _stream(agent: Agent, _: int | None) -> None:
    async def read() -> None:
        async for view in agent.stream('task hi'):
            emit('stream', **view)

    await _reading(agent, 'stream', read)


async def _ask(agent: Agent, _: int | None) -> None:
    if asked := await _step(agent, 'send', lambda: agent.send('ask x')):
        await _step(agent, 'answer', lambda: agent.send('more', asked['taskId'], asked['contextId']))


async def _get(agent: Agent, _: int | None) -> None:
    if sent := await _step(agent, 'send', lambda: agent.send('task hi')):
        await _step(agent, 'get', lambda: agent.get(sent['taskId']))


async def _list(agent: Agent, _: int | None) -> None:
    async def listed() -> View:
        tasks = await agent.list(sent['contextId'])
        return {
            'kind': 'tasks',
            'text': '; '.join(f'{t["state"]} {t["text"]}' for t in tasks),
            'contextId': ' '.join(dict.fromkeys(t['contextId'] for t in tasks)),
            'taskId': ' '.join(t['taskId'] for t in tasks),
        }

    if sent := await _step(agent, 'send', lambda: agent.send('task hi')):
        await _step(agent, 'list', listed)


async def _cancel(agent: Agent, _: int | None) -> None:
    await _while_working(agent, lambda task_id: _step(agent, 'cancel', lambda: agent.cancel(task_id)))


async def _subscribe(agent: Agent, _: int | None) -> None:
    # The first stream stays open and unread: some servers end the task's
    # events for everyone when the stream that began it goes.
    first_stream = agent.stream('slow x')
    working: View = {}

    async def until_working() -> None:
        async for view in first_stream:
            emit('stream', **view)
            if view.get('state') == 'working':
                working.update(view)
                return

    async def follow() -> None:
        events = agent.subscribe(working['taskId'])
        following = asyncio.ensure_future(anext(events, None))
        # 0.3 does not say whether a resubscription begins with the task as it
        # stands. A server that says nothing must not hold up the scenario.
        await asyncio.wait([following], timeout=SILENCE)
        if following.done():
            if (view := following.result()) is None:
                return
            emit('subscribe', **view)
            following = asyncio.ensure_future(anext(events, None))
        await _step(agent, 'cancel', lambda: agent.cancel(working['taskId']))
        while (view := await following) is not None:
            emit('subscribe', **view)
            following = asyncio.ensure_future(anext(events, None))

    await _reading(agent, 'stream', until_working)
    if working:
        await _reading(agent, 'subscribe', follow)


async def _push(agent: Agent, _: int | None) -> None:
    async def act(task_id: str) -> None:
        async def delete() -> View:
            await agent.push_delete(task_id, HOOK.id)
            return {'kind': 'none'}

        async def one(call: Awaitable[Hook]) -> View:
            hook = await call
            return {'kind': 'config', 'text': f'{hook.url} {hook.token}', 'taskId': hook.task_id}

        async def every() -> View:
            hooks = await agent.push_list(task_id)
            return {'kind': 'configs', 'text': '; '.join(f'{h.url} {h.token}' for h in hooks) or 'none'}

        steps: list[tuple[str, Callable[[], Awaitable[View]]]] = [
            ('create', lambda: one(agent.push_create(task_id, HOOK))),
            ('get', lambda: one(agent.push_get(task_id, HOOK.id))),
            ('list', every),
            ('delete', delete),
            ('list', every),
            ('cancel', lambda: agent.cancel(task_id)),
        ]
        for name, call in steps:
            try:
                await _step(agent, name, call)
            except Unsupported as err:
                # The 0.3 transports have some of these and not others.
                emit(name, kind='none', error=f'not in this SDK: {err}')

    await _while_working(agent, act)


async def _card(agent: Agent, _: int | None) -> None:
    async def card() -> View:
        return {'kind': 'card', 'text': await agent.card()}

    await _step(agent, 'card', card)


async def _errors(agent: Agent, count: int | None) -> None:
    for _ in range(count or 1):
        await _step(agent, 'get', lambda: agent.get('nope'))


async def _fanout(agent: Agent, count: int | None) -> None:
    # A plain SDK keeps no conversation: its user hands back the context id of
    # the answer to carry on.
    count = count or FAN_OUT
    contexts = [''] * count
    for turn in (1, 2):
        calls = [
            agent.send(f'task {(turn - 1) * count + n + 1}', context_id=contexts[n]) for n in range(count)
        ]
        for n, result in enumerate(await asyncio.gather(*calls, return_exceptions=True)):
            if isinstance(result, BaseException):
                if not isinstance(result, agent.failures):
                    raise result
                result = {'kind': 'error', **agent.failure(result)}
            emit(f'turn {turn}', **result)
            contexts[n] = result.get('contextId', '')


async def _while_working(agent: Agent, act: Callable[[str], Awaitable[Any]]) -> None:
    """Streams "slow x", acts once it works, and reads the stream to its end."""

    async def read() -> None:
        acted = False
        async for view in agent.stream('slow x'):
            emit('stream', **view)
            if not acted and view.get('state') == 'working':
                acted = True
                await act(view['taskId'])

    await _reading(agent, 'stream', read)


async def _step(agent: Agent, name: str, call: Callable[[], Awaitable[View]]) -> View | None:
    """Does one call and prints its answer; None when the answer was an error."""
    try:
        view = await call()
    except agent.failures as err:
        emit(name, kind='error', **agent.failure(err))
        return None
    emit(name, **view)
    return view


async def _reading(agent: Agent, name: str, read: Callable[[], Awaitable[None]]) -> None:
    """Runs what reads a stream; an error of the agent ends it and is printed."""
    try:
        await read()
    except agent.failures as err:
        emit(name, kind='error', **agent.failure(err))


_SCENARIOS: dict[str, Callable[[Agent, int | None], Awaitable[None]]] = {
    'message': _message,
    'task': _task,
    'stream': _stream,
    'ask': _ask,
    'get': _get,
    'list': _list,
    'cancel': _cancel,
    'subscribe': _subscribe,
    'push': _push,
    'card': _card,
    'errors': _errors,
    'fanout': _fanout,
}
