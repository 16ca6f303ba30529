"""The programs of the topology: of packages of the system, and a Temporal server built from its modules."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pwd import struct_passwd

import pytest

from embedded.cluster import binaries, reachable, runnable
from embedded.temporal_binary import cache_folder, present
from tests.stacks import CLI, ROOT

_MODULE = ROOT / "embedded" / "temporal"
_SERVER = "go.temporal.io/server"
_BUILT = {"temporal-server": f"{_SERVER}/cmd/server", "temporal-sql-tool": f"{_SERVER}/cmd/tools/sql"}
_BUILD_SECONDS = 840
# The Postgres that the tests have lacks this extension, which makes searches in visibility quicker.
_EXTENSION = re.compile(r"\bCREATE EXTENSION btree_gin;")
_INDEX = re.compile(r"USING GIN \(namespace_id, ")


def find_program(name: str) -> Path:
    """A program of this machine. Where there is none, the test skips; in CI it fails."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        missing = f"{name} is not installed"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return Path(found)


def _version() -> str:
    found = re.search(rf"{re.escape(_SERVER)} (v\S+)", (_MODULE / "go.mod").read_text())
    assert found is not None
    return found[1]


def _go(*arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=_MODULE, capture_output=True, text=True, timeout=_BUILD_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def built_temporal() -> Path:
    """The folder with Temporal's server, its schema tool and its schemas, built once for a release."""
    folder = cache_folder(Path(tempfile.gettempdir())).parent / f"server-{_version()}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "schema").exists():
            find_program("go")
            for name, package in _BUILT.items():
                _go("build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / f"{name}.new"), package)
                (folder / f"{name}.new").rename(folder / name)
            _write_schema(folder / "schema")
    return folder


def _write_schema(folder: Path) -> None:
    """Copy the schema of visibility without the extension, and without the columns that need it."""
    source = Path(_go("list", "-m", "-f", "{{.Dir}}", _SERVER)) / "schema/postgresql/v12/visibility/versioned"
    new = folder.with_name("schema.new")
    shutil.rmtree(new, ignore_errors=True)
    for file in source.rglob("*.*"):
        if file.is_file():
            text = _INDEX.sub("USING GIN (", _EXTENSION.sub("NULL;", file.read_text()))
            target = new / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    new.rename(folder)


@dataclass(frozen=True)
class Programs:
    """The programs by the paths and names that the page has for them.

    Attributes:
        path: the folders for `PATH`.
        places: the paths of the page, and the command words for each.
    """

    path: str
    places: Mapping[str, list[str]]


def make_programs(folder: Path, user: struct_passwd | None) -> Programs:
    """Find and build all programs, in places where `user` can run them.

    `folder` gets a `temporal-sql-tool` that takes the schema without the extension, and `vedette`.
    """
    haproxy, pgbouncer = find_program("haproxy"), find_program("pgbouncer")
    find_program("openssl")
    built = built_temporal()
    postgres = reachable(binaries(), user)
    cli = present(cache_folder(Path(tempfile.gettempdir())))
    assert cli is not None
    place = f"topology-{_version()}"
    server = runnable(built / "temporal-server", built, place, user)
    tool = server.parent / "temporal-sql-tool"
    stamp = cli.stat()
    temporal = runnable(cli, cli, f"temporal-{stamp.st_mtime_ns:x}-{stamp.st_size:x}", user)
    folder.mkdir(mode=0o755)
    embedded, own = "--schema-name postgresql/v12/visibility", f"--schema-dir {server.parent}/schema"
    _write_script(folder / "temporal-sql-tool", f'exec {tool} $(echo "$*" | sed "s#{embedded}#{own}#")')
    _write_script(folder / "vedette", f'exec {sys.executable} {CLI} "$@"')
    return Programs(
        f"{folder}:{postgres}:{temporal.parent}:{os.environ['PATH']}",
        {
            "/opt/vedette/.venv/bin/vedette": [sys.executable, str(CLI)],
            "/usr/lib/postgresql/18/bin/postgres": [str(postgres / "postgres")],
            "/usr/local/bin/temporal-server": [str(server)],
            "/usr/sbin/haproxy": [str(haproxy)],
            "/usr/sbin/pgbouncer": [str(pgbouncer)],
        },
    )


def _write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
