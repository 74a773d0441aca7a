"""What the lab's agents do, apart from how an SDK spells it.

The first word of a message says what is wanted.
"""

from __future__ import annotations

SLOW_SECONDS = 60
"""How long a slow task works when nobody cancels it."""

_KNOWN = {'message', 'task', 'ask', 'slow', 'fail'}


def wanted(text: str, *, follow_up: bool) -> str:
    """What the text asks for; a follow-up on a task always completes it."""
    word = text.split(maxsplit=1)[0] if text.strip() else ''
    return word if word in _KNOWN and not follow_up else 'task'


def chunks(text: str) -> list[str]:
    """The artifact's text in the two chunks in which it is streamed."""
    return ['echo: ', text]
