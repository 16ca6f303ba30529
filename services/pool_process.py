"""A process of the pool: it reads work from its standard input, and writes the results."""

from __future__ import annotations

import os
import pickle
import resource
import sys
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

LENGTH_BYTES = 4
# In addition to the process's own needs: enough for the largest input and everything derived from it.
_MEMORY_BYTES = 1024 * 1024 * 1024
# Processes that answer requests have priority.
_NICENESS = 5


class WorkResult(NamedTuple):
    """The result of finished work; any other message is a question."""

    result: Any


def frame_message(message: Any) -> bytes:
    """Return a message in the form for a pipe: its length, then the message."""
    pickled = pickle.dumps(message)
    return len(pickled).to_bytes(LENGTH_BYTES) + pickled


def _read_message(file: BinaryIO) -> Any:
    """Return the next message. Raises EOFError if the sender has gone."""
    length = int.from_bytes(file.read(LENGTH_BYTES))
    return pickle.loads(file.read(length))


def main() -> None:
    """Work until the standard input ends."""
    os.nice(_NICENESS)
    with suppress(OSError, ValueError):  # where the system has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    orders, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with results

    def say(message: Any) -> None:
        try:
            results.write(frame_message(message))
            results.flush()
        except BrokenPipeError:
            # Whoever asked has gone. The interpreter's own exit would write once more.
            os._exit(0)

    def ask(question: Any) -> Any:
        say(question)
        return _read_message(orders)

    while True:
        try:
            work, arguments, named = _read_message(orders)
        except EOFError:
            return
        say(WorkResult(work(ask, *arguments, **named)))
