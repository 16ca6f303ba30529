"""Backups are written whole or not at all, and replace nothing but files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from database import Database
from embedded.cluster import binaries
from models.installation import root_key
from sealing import Keyring
from services.operator.backup import BackupError, Manifest, back_up, check_backup
from settings import Settings


@pytest.fixture
async def installed(settings: Settings, database: Database, keyring: Keyring) -> Settings:
    """The settings of a database that knows its root key, which is in their folder."""
    async with database.connection() as connection:
        await root_key.open_keyring(connection, settings)
    return settings


async def write(settings: Settings, target: Path) -> Manifest:
    return await back_up(settings, "1", target, [binaries()], None)


async def test_two_at_once_to_one_file_leave_a_whole_one(installed: Settings, tmp_path: Path) -> None:
    target = tmp_path / "x.backup"
    made = await asyncio.gather(*(write(installed, target) for _ in range(2)))
    assert check_backup(installed, target, None).manifest in made
    assert os.listdir(tmp_path) == ["x.backup"]


async def test_the_file_that_a_link_leads_to_is_written(installed: Settings, tmp_path: Path) -> None:
    link = tmp_path / "link.backup"
    link.symlink_to(tmp_path / "real.backup")
    await write(installed, link)
    assert link.is_symlink()
    check_backup(installed, tmp_path / "real.backup", None)


async def test_what_is_no_file_is_refused_and_stays(installed: Settings, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BackupError, match=f"{pipe} is no file"):
        await write(installed, pipe)
    assert pipe.is_fifo()
