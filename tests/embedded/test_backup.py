"""A backup that is made under load brings back, on another machine, all that it has; and what it refuses."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from embedded.temporal import Temporal
from settings import ExitCode
from tests.datasets import write_small_datasets
from tests.embedded.in_flight import RUNS, Receiver, all_completed, begin, client
from tests.stacks import StackProcess, alive, eventually, failed, vedette

pytestmark = pytest.mark.long

_NAMES = {"VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32"}


class Lost(NamedTuple):
    """A backup of a stack that is gone for good.

    Attributes:
        ids: the runs that were under way in it.
        key: of its API.
        ages: what its metrics said of the age of the backup: before it, after it, and in between the age that
            it had at most, by the clock of the test.
    """

    file: Path
    ids: list[str]
    key: str
    ages: tuple[float | None, float, float | None]


async def find_backup_age(stack: StackProcess) -> float | None:
    """Return the age of the last backup by `/metrics`; None if that does not say it."""
    async with client(stack) as api:
        text = (await api.get("/metrics")).text
    assert "vedette_database_reached 1.0" in text
    found = re.search(r"^vedette_backup_age_seconds (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


@pytest.fixture(scope="module")
def passphrase(scratch: Path) -> Path:
    file = scratch / "passphrase"
    file.write_text("correct horse battery staple\n")
    return file


@pytest.fixture(scope="module")
async def lost(scratch: Path, temporal_server: Temporal, receiver: Receiver, passphrase: Path) -> Lost:
    """Back up a stack while runs are under way, and lose it."""
    data, file = scratch / "lost", scratch / "vedette.backup"
    write_small_datasets(data)
    stack = StackProcess(data, **_NAMES)
    try:
        await stack.ready()
        ids, key = await begin(stack, receiver), stack.api_key
        before, began = await find_backup_age(stack), time.monotonic()
        done = await asyncio.to_thread(
            vedette, data, "backup", str(file), "--passphrase-file", str(passphrase)
        )
        assert done.returncode == 0, done.stderr
        after = await find_backup_age(stack)
        ages = before, time.monotonic() - began, after
        # Nothing that the backup does not have counts: these calls come back from a stack that is gone.
        receiver.open.set()
        await eventually(lambda: all_completed(stack, ids), 60, "all runs complete after the backup")
    finally:
        children = stack.record.children
        stack.kill()
        await eventually(lambda: not alive(children), 20, "nothing of it is left")
    shutil.rmtree(data)
    return Lost(file, ids, key, ages)


@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_damaged_backup_is_refused(lost: Lost, scratch: Path, how: str, passphrase: Path) -> None:
    whole = lost.file.read_bytes()
    middle = len(whole) // 2
    spoilt = whole[:middle] if how == "cut" else whole[:middle] + b"spoilt" + whole[middle + 6 :]
    file = scratch / f"{how}.backup"
    file.write_bytes(spoilt)
    done = vedette(scratch / "refused", "restore", str(file), "--passphrase-file", str(passphrase))
    assert str(file) in done.stderr and done.returncode == ExitCode.DATA
    assert not (scratch / "refused" / "secret.key").exists()


def test_the_metrics_say_how_old_a_backup_is(lost: Lost) -> None:
    before, most, after = lost.ages
    assert before is None
    assert after is not None and 0 <= after <= most


def test_without_the_root_key_a_backup_is_refused(lost: Lost, scratch: Path) -> None:
    said = failed(vedette(scratch / "no-key", "restore", str(lost.file)), ExitCode.SECRET_KEY, lines=2)
    assert "fingerprint" in said and "passphrase" in said
    done = vedette(scratch / "no-key", "restore", str(lost.file), VEDETTE_SECRET_KEY="another key" * 4)
    assert "another one" in done.stderr and done.returncode == ExitCode.SECRET_KEY


async def test_after_all_was_lost_the_runs_of_the_backup_go_on_under_their_ids(
    lost: Lost, scratch: Path, receiver: Receiver, passphrase: Path
) -> None:
    file, ids, key, _ = lost
    data = scratch / "restored"
    write_small_datasets(data)
    restore = ("restore", str(file), "--passphrase-file", str(passphrase))
    done = await asyncio.to_thread(vedette, data, *restore)
    assert done.returncode == 0, done.stderr
    again = await asyncio.to_thread(vedette, data, *restore)
    assert "holds an installation already" in again.stderr and again.returncode == ExitCode.DATABASE
    stack = StackProcess(data, **_NAMES)
    try:
        await stack.ready()
        async with asyncio.timeout(60):
            await eventually(lambda: all_completed(stack, ids, key), 60, "the runs of the backup complete")
        calls = Counter(receiver.call_ids)
        assert len(calls) == RUNS and max(calls.values()) <= 2
        doctor = await asyncio.to_thread(vedette, data, "doctor")
        assert doctor.returncode == 0, doctor.stdout
    finally:
        assert await stack.stop() == 0
