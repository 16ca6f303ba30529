"""An API whose limits allow what the tests send, and an account."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from settings import Settings
from tests.api_server import Api, running


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with running(settings, limit_bulk=None) as served:
        yield served
