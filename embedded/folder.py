"""The data folder: the checks before its use, its lock, and the record of the running stack."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

from embedded.process import command_line
from settings import ExitCode, StartError

LEAST_FREE_BYTES = 200 * 1024 * 1024
"""Below this a start is refused: the databases need room to recover and to store incoming data."""

# A folder with other content and none of these was most likely named by mistake.
_OURS = frozenset(
    {"stack.lock", "secret.key", "first-account.json", "postgres", "temporal", "logs", "datasets", "cache"}
)
_HARMLESS = frozenset({"lost+found"})


@dataclass(frozen=True)
class RunningStack:
    """The record `<data>/stack.json` of the stack running on this folder.

    Attributes:
        pid: the supervisor.
        command: its command line, which distinguishes it from a later process with the same id.
        url: the address of its API.
        database_url: its database.
        temporal_address: its Temporal server, which is up once the stack is ready.
        temporal_ui: the web pages of that server; None unless it is the built-in one and up.
        ready: whether it runs workflows; before that only the API works.
        children: process id and command line of each child, by name.
    """

    pid: int
    command: str
    url: str
    database_url: str
    temporal_address: str
    temporal_ui: str | None = None
    ready: bool = False
    children: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all, and durably."""
    staging = path.with_name(path.name + ".new")
    staging.unlink(missing_ok=True)
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staging.replace(path)


def prepare(data: Path) -> Path:
    """Make the data folder if needed, and check that it is usable; return its absolute path.

    Raises:
        StartError: with the reason. Nothing in it has been changed.
    """
    data = data.expanduser().absolute()
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = set(os.listdir(data))
    except OSError as error:
        raise _folder_error(data, f"cannot be used: {error.strerror}") from None
    if not os.access(data, os.W_OK | os.X_OK):
        raise _folder_error(data, "is not writable")
    strangers = sorted(name for name in names - _HARMLESS if not name.startswith("."))
    if strangers and not names & _OURS:
        raise _folder_error(data, f"holds other things ({', '.join(strangers[:3])}) and nothing of vedette's")
    if os.geteuid() != 0 and (owner := data.stat().st_uid) != os.geteuid():
        raise _folder_error(data, f"belongs to another user (uid {owner})")
    free = shutil.disk_usage(data).free
    if free < LEAST_FREE_BYTES:
        needed = LEAST_FREE_BYTES // 1024**2
        raise StartError(
            f"The disk of the data folder {data} is full: {free // 1024**2} MiB free, {needed} needed.",
            ExitCode.DATA_FOLDER,
        )
    return data


def _folder_error(data: Path, problem: str) -> StartError:
    return StartError(
        f"The data folder {data} {problem}. Choose another one with VEDETTE_DATA.", ExitCode.DATA_FOLDER
    )


def lock(data: Path) -> TextIO:
    """Lock the folder for this process; it is unlocked when the file is closed or the process ends.

    Raises:
        StartError: if another stack holds the lock.
    """
    try:
        file = (data / "stack.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise _folder_error(data, f"cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        file.close()
        raise StartError(
            f"The data folder {data} is in use by another stack (process {pid}). "
            "Stop that one, or choose another folder with VEDETTE_DATA.",
            ExitCode.DATA_FOLDER,
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def record(data: Path, stack: RunningStack) -> None:
    """Write `stack.json`, for the commands that need the database of a running stack."""
    write_private(data / "stack.json", json.dumps(asdict(stack), indent=2) + "\n")


def read_record(data: Path) -> RunningStack | None:
    """Return the record in `stack.json`, whether or not that stack still runs.

    Raises:
        StartError: if this user must not read the file.
    """
    path = data / "stack.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        children = {name: (int(pid), str(line)) for name, (pid, line) in values.pop("children").items()}
        return RunningStack(**values, children=children)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise StartError(
            f"{path} belongs to another user; run this as that user.", ExitCode.DATA_FOLDER
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # truncated or from another release: treated as missing


def running(data: Path) -> RunningStack | None:
    """Return the stack that runs on this folder now, if any."""
    stack = read_record(data.expanduser().absolute())
    return stack if stack and stack.command and command_line(stack.pid) == stack.command else None


def forget(data: Path) -> None:
    """Remove `stack.json`, because the stack has stopped."""
    with suppress(OSError):
        (data / "stack.json").unlink(missing_ok=True)
