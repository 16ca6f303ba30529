"""A process of the pool: it reads what to do from its standard input, and writes what came of it."""

from __future__ import annotations

import os
import pickle
import resource
import sys
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

LENGTH_BYTES = 4
# Beyond what such a process needs by itself, enough for the largest input and all that is made of it.
_MEMORY_BYTES = 1024 * 1024 * 1024
# Those that answer requests go first.
_NICENESS = 5


class Done(NamedTuple):
    """The work is done; anything else that is written is a question."""

    result: Any


def framed(message: Any) -> bytes:
    """A message as it goes over a pipe: its length, then itself."""
    pickled = pickle.dumps(message)
    return len(pickled).to_bytes(LENGTH_BYTES) + pickled


def _read(file: BinaryIO) -> Any:
    """The next message. Raises EOFError where the one that sends them has gone."""
    length = int.from_bytes(file.read(LENGTH_BYTES))
    return pickle.loads(file.read(length))


def main() -> None:
    """Work until the standard input ends."""
    os.nice(_NICENESS)
    with suppress(OSError, ValueError):  # where the system knows no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    orders, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no result

    def say(message: Any) -> None:
        results.write(framed(message))
        results.flush()

    def ask(question: Any) -> Any:
        say(question)
        return _read(orders)

    while True:
        try:
            work, arguments, named = _read(orders)
        except EOFError:
            return
        say(Done(work(ask, *arguments, **named)))
