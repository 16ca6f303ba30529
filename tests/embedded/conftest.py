"""The endpoint that runs of stacks of their own call."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from tests.embedded.in_flight import Receiver


@pytest.fixture(scope="module")
def receiver() -> Generator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.open.set()
    server.shutdown()
    server.server_close()
    thread.join()
