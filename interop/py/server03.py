"""An A2A agent on a2a-sdk 0.3: JSON-RPC, HTTP+JSON and gRPC, version 0.3 alone."""

from __future__ import annotations

import asyncio
import uuid

import grpc.aio
import httpx
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, TextPart
from a2a.utils import new_agent_text_message, new_task

from behaviour import SLOW_SECONDS, chunks, wanted
from program import Unsupported, run, server_options
from serving import serve


class Echo(AgentExecutor):
    """The lab's agent: what it does is in behaviour.py, how 0.3 publishes it here."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        kind = wanted(text, follow_up=context.current_task is not None)
        if kind == 'message':
            await event_queue.enqueue_event(new_agent_text_message(f'echo: {text}', context.context_id))
            return

        if context.current_task is None:
            await event_queue.enqueue_event(new_task(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if kind == 'ask':
            await task.requires_input(task.new_agent_message([_part('what else?')]), final=True)
            return
        await task.start_work()
        if kind == 'fail':
            await task.failed(task.new_agent_message([_part('failed as asked')]))
            return
        if kind == 'slow':
            try:
                await asyncio.sleep(SLOW_SECONDS)
            except asyncio.CancelledError:
                # The SDK cancels what runs execute, and gives cancel() a queue
                # that only the caller of CancelTask reads. Whoever streams the
                # task learns of its end from here.
                await task.cancel()
                raise
        artifact = str(uuid.uuid4())
        pieces = chunks(text)
        for i, piece in enumerate(pieces):
            await task.add_artifact(
                [_part(piece)],
                artifact_id=artifact,
                name='echo',
                append=i > 0,
                last_chunk=i == len(pieces) - 1,
            )
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def _part(text: str) -> Part:
    return Part(root=TextPart(text=text))


def agent_card(port: int, grpc_port: int | None) -> AgentCard:
    rest = AgentInterface(transport='HTTP+JSON', url=f'http://127.0.0.1:{port}')
    rpc = AgentInterface(transport='GRPC', url=f'127.0.0.1:{grpc_port}')
    return AgentCard(
        name='py-sdk-0.3',
        description='echoes',
        version='1.0.0',
        protocol_version='0.3.0',
        url=f'http://127.0.0.1:{port}/',
        preferred_transport='JSONRPC',
        additional_interfaces=[rest, rpc] if grpc_port else [rest],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        supports_authenticated_extended_card=True,
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='echo', name='echo', description='echoes', tags=['test'])],
    )


async def main() -> None:
    options = server_options()
    if options.version != '0.3':
        raise Unsupported('a2a-sdk 0.3 serves 0.3 alone; for 1.0 see server.py')
    card = agent_card(options.port, options.grpc_port)
    extended = card.model_copy(update={'description': 'echoes, and more'})
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Echo(),
        task_store=InMemoryTaskStore(),
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
    )
    app = A2ARESTFastAPIApplication(card, handler, extended_agent_card=extended).build()
    A2AStarletteApplication(card, handler, extended_agent_card=extended).add_routes_to_app(app)
    rpc = None
    if options.grpc_port:
        rpc = grpc.aio.server()
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), rpc)
    await serve(app, options.port, rpc, options.grpc_port)


if __name__ == '__main__':
    run(main)
