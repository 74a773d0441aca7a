"""An A2A agent on a2a-sdk 1.x: JSON-RPC, HTTP+JSON and gRPC.

In version 1.0 alone, or with the SDK's own 0.3 compatibility beside it.
"""

from __future__ import annotations

import asyncio
import uuid

import grpc.aio
import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers.proto_helpers import (
    get_message_text,
    new_task_from_user_message,
    new_text_message,
    new_text_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2_grpc
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
)
from starlette.applications import Starlette

from behaviour import SLOW_SECONDS, chunks, wanted
from program import Unsupported, run, server_options
from serving import serve

VERSIONS = {'1.0': ['1.0'], 'both': ['1.0', '0.3']}


class Echo(AgentExecutor):
    """The lab's agent: what it does is in behaviour.py, how 1.x publishes it here."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = get_message_text(context.message)
        kind = wanted(text, follow_up=context.current_task is not None)
        if kind == 'message':
            reply = new_text_message(f'echo: {text}', context_id=context.context_id)
            await event_queue.enqueue_event(reply)
            return

        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if kind == 'ask':
            await task.requires_input(task.new_agent_message([new_text_part('what else?')]))
            return
        await task.start_work()
        if kind == 'fail':
            await task.failed(task.new_agent_message([new_text_part('failed as asked')]))
            return
        if kind == 'slow':
            # A cancelled task ends here: the SDK cancels what runs execute.
            await asyncio.sleep(SLOW_SECONDS)
        artifact = str(uuid.uuid4())
        pieces = chunks(text)
        for i, piece in enumerate(pieces):
            await task.add_artifact(
                [new_text_part(piece)],
                artifact_id=artifact,
                name='echo',
                append=i > 0,
                last_chunk=i == len(pieces) - 1,
            )
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def agent_card(port: int, grpc_port: int | None, versions: list[str]) -> AgentCard:
    endpoints = [
        ('JSONRPC', f'http://127.0.0.1:{port}/'),
        ('HTTP+JSON', f'http://127.0.0.1:{port}'),
    ]
    if grpc_port:
        endpoints.append(('GRPC', f'127.0.0.1:{grpc_port}'))
    return AgentCard(
        name='py-sdk-1.x',
        description='echoes',
        version='1.0.0',
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, url=url, protocol_version=version)
            for version in versions
            for binding, url in endpoints
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=['text/plain'],
        default_output_modes=['text/plain'],
        skills=[AgentSkill(id='echo', name='echo', description='echoes', tags=['test'])],
    )


async def main() -> None:
    options = server_options()
    versions = VERSIONS.get(options.version)
    if versions is None:
        raise Unsupported('a2a-sdk 1.x serves 1.0 alone or both; for 0.3 alone see server03.py')
    compat = '0.3' in versions
    card = agent_card(options.port, options.grpc_port, versions)
    extended = AgentCard()
    extended.CopyFrom(card)
    extended.description = 'echoes, and more'
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Echo(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
        extended_agent_card=extended,
    )
    app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, '/', enable_v0_3_compat=compat),
            *create_rest_routes(handler, enable_v0_3_compat=compat),
        ]
    )
    rpc = None
    if options.grpc_port:
        rpc = grpc.aio.server()
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), rpc)
        if compat:
            a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), rpc)
    await serve(app, options.port, rpc, options.grpc_port)


if __name__ == '__main__':
    run(main)
