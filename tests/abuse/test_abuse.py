"""The attacks of `make abuse`, each tried briefly on one stack."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from bench.abuse.cases import tried
from bench.abuse.every import CASES
from bench.abuse.target import Target, attacked, is_root
from embedded.temporal import Temporal

pytestmark = pytest.mark.long

# Each has a test of its own that says more, and starts fewer processes for it.
TESTED_ELSEWHERE = {
    "A10 fuzz": "tests/errors/test_fuzz.py",
    "doors behind a proxy": "tests/health/test_metrics.py, tests/accounts/test_accounts.py",
    "logins": "tests/sessions/test_login_limits.py",
    "odd starts": "tests/embedded/test_announcement.py, tests/embedded/test_bad_days.py",
    "planted text": "tests/dashboard/test_strangers.py",
    "wrong root key": "tests/secrets/test_root_key.py, tests/embedded/test_announcement.py",
}
TRIED = [name for name in CASES if name not in TESTED_ELSEWHERE and (name != "children" or is_root())]


@pytest.fixture(scope="module")
async def target(scratch: Path, temporal_server: Temporal) -> AsyncGenerator[Target]:
    """A stack of its own; the session's Temporal is only awaited, so that a build of it is seen."""
    async with attacked(scratch / "abused", full=False) as target:
        yield target


@pytest.mark.parametrize("name", TRIED)
async def test_an_attack_is_held_off(target: Target, name: str) -> None:
    tally = await tried(CASES[name], target)
    assert tally.tried > 0 and tally.broken == []
