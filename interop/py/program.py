"""What every program here shares: how it is called, what it prints, how it ends.

It knows nothing of A2A or of any SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

FAN_OUT = 11
"""How many calls of one turn run at once, unless --count says otherwise."""


class Unsupported(Exception):
    """The SDK under test has no way to do what was asked: exit code 3."""


def client_options() -> argparse.Namespace:
    """The options of a client program: url, binding, version, scenario, count."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--url', required=True)
    parser.add_argument('--binding', default='JSONRPC')
    parser.add_argument('--version', default='1.0')
    parser.add_argument('--scenario', required=True)
    parser.add_argument('--count', type=int)
    return parser.parse_args()


def server_options() -> argparse.Namespace:
    """The options of a server program: port, version, and grpc_port or None."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--port', type=int, required=True)
    parser.add_argument('--grpc-port', type=int)
    parser.add_argument('--version', required=True)
    return parser.parse_args()


def emit(step: str, **members: Any) -> None:
    """Prints one step as one JSON line; absent and empty members are left out."""
    line = {'step': step, **{k: v for k, v in members.items() if v not in (None, '')}}
    print(json.dumps(line, ensure_ascii=False, separators=(',', ':')), flush=True)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    """Runs main and ends the process: 0 done, 3 the SDK cannot do it, else 1.

    The process goes at once: tasks, channels and streams that an SDK left open
    must not keep it, so there is no asyncio.run, which would wait for them.
    """
    code = 0
    try:
        asyncio.new_event_loop().run_until_complete(main())
    except Unsupported as err:
        print(err, file=sys.stderr)
        code = 3
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
