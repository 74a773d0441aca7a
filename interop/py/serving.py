"""Runs a Starlette application and a gRPC server until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

import grpc.aio
import uvicorn
from starlette.applications import Starlette

GRACE = 1
"""Whole seconds that open HTTP streams get when the server ends."""


class _Server(uvicorn.Server):
    """A uvicorn server that leaves the signals to us and says when it listens."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            print('ready', flush=True)


async def serve(app: Starlette, port: int, rpc: grpc.aio.Server | None, rpc_port: int | None) -> None:
    """Serves app, and rpc if given, on 127.0.0.1; returns after SIGTERM."""
    config = uvicorn.Config(
        app, host='127.0.0.1', port=port, log_level='warning', timeout_graceful_shutdown=GRACE
    )
    server = _Server(config)

    def stop() -> None:
        server.should_exit = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    if rpc is not None:
        rpc.add_insecure_port(f'127.0.0.1:{rpc_port}')
        await rpc.start()
    await server.serve()
    if rpc is not None:
        await rpc.stop(grace=None)
