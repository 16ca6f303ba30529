"""Child processes of the supervisor: detached from the terminal, and ended with their parent."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

SUPERVISOR = "SUPERVISOR_PID"
"""The environment variable with the supervisor's process id, for a child."""

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.05
_ORPHAN_SECONDS = 8.0
_LOG_BYTES = 16 * 1024 * 1024

_libc: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None


def bound_to_parent(
    death_signal: signal.Signals = signal.SIGTERM, *, niceness: int = 0
) -> Callable[[], None]:
    """Return a function that binds a new child to its parent, to run between fork and exec.

    The kernel then signals the child when its parent dies. With a `niceness` the child has a lower priority.

    It must come after a change of user, which clears the arrangement. The kernel watches the *thread* that
    forked: start children from the main thread only. On other systems than Linux it does
    nothing.
    """
    parent = os.getpid()

    def bind() -> None:
        os.nice(niceness)
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
            if os.getppid() != parent:  # the parent died in between
                os._exit(1)

    return bind


def as_user(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return the arguments with which `subprocess` runs a program as `user`; None is the current user."""
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


NO_HOME = {"HOME": "/"}
"""The environment of programs of another user, who cannot use our home."""


@dataclass(frozen=True, slots=True)
class ChildSetup:
    """The environment and the files that a child process gets from its parent.

    Attributes:
        environment: the whole environment; None for the parent's.
        user: run as this user (only root can).
        stdin: its standard input: a file or a socket.
        folder: its working folder; None for the parent's.
        executable: the file of its program, if the path in its command cannot reach it.
        descriptors: our descriptors that it keeps open, under the same numbers.
    """

    environment: Mapping[str, str] | None = None
    user: pwd.struct_passwd | None = None
    stdin: int | IO[Any] | Any = subprocess.DEVNULL
    folder: Path | None = None
    executable: Path | None = None
    descriptors: Sequence[int] = ()


class Child:
    """One child process, in a session of its own so that the terminal's Ctrl-C does not reach it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        setup: ChildSetup | None = None,
        *,
        log: Path,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        """Describe the child; `start` starts it.

        Args:
            name: the name for people.
            command: its program and arguments.
            setup: what it gets from this process.
            log: receives its output, appended.
            stop_signal: asks it to stop in an orderly way; also sent by the kernel when the parent dies.
        """
        self.name = name
        self.command = list(command)
        self.log = log
        self._setup = setup or ChildSetup()
        self._stop_signal = stop_signal
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0
        self._log_read = 0

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    async def start(self) -> None:
        """Start the process. Call it on the main thread."""
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        setup = self._setup
        environment = dict(os.environ if setup.environment is None else setup.environment)
        environment[SUPERVISOR] = str(os.getpid())
        if setup.user is not None:
            environment |= NO_HOME
        with self.log.open("ab") as log:
            self._log_start = self._log_read = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=setup.stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=setup.folder,
                executable=setup.executable,
                pass_fds=setup.descriptors,
                start_new_session=True,
                preexec_fn=bound_to_parent(self._stop_signal),
                **as_user(setup.user),
            )

    async def wait(self) -> int:
        """Wait for its end; return the exit code, negative for a signal; 1 if it could not be started."""
        return 1 if self._process is None else await self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, seconds: float, harder: signal.Signals = signal.SIGKILL) -> None:
        """Ask it to stop; after `seconds` send `harder`, and after two more kill it."""
        for number, patience in ((self._stop_signal, seconds), (harder, 2.0), (signal.SIGKILL, None)):
            if self.pid is None:
                return
            self.send(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), patience)

    def new_lines(self) -> list[str]:
        """Return the complete lines that it has written since the last call."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(self._log_read)
            text = log.read()
            whole = text.rfind(b"\n") + 1
            self._log_read += whole
            return text[:whole].decode(errors="replace").splitlines()
        return []

    def log_tail(self, lines: int = 3) -> str:
        """Return the last lines of its log since its start."""
        try:
            with self.log.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                start = self._log_start if size >= self._log_start else 0
                log.seek(max(start, size - 8192))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def cap_log(log: Path, limit: int = _LOG_BYTES) -> None:
    """Move a log of more than `limit` bytes to `<log>.1`; its writer continues in the emptied file."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > limit:
            shutil.copyfile(log, log.with_name(log.name + ".1"))
            os.truncate(log, 0)


def command_line(pid: int) -> str:
    """Return the command line of a process, empty if it does not exist or is a zombie."""
    if Path("/proc/self").exists():
        try:
            return (
                Path(f"/proc/{pid}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
                .strip()
            )
        except OSError:
            return ""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout.strip()


async def stop_leftover(
    pid: int, is_ours: Callable[[int], bool], signals: Sequence[tuple[signal.Signals, float]]
) -> None:
    """Stop a process that an earlier stack left behind, and wait until it has closed its files and sockets.

    Args:
        pid: its recorded process id, which may belong to another process by now.
        is_ours: returns whether the process with this id is the expected one.
        signals: the signals to send, and the seconds to wait after each.
    """
    for number, patience in signals:
        if not is_ours(pid):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience
        while (is_ours(pid) or _is_ending(pid)) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)


def _is_ending(pid: int) -> bool:
    """Return whether a process has no memory any more, so no command line, but may still hold files."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return False
    return state not in "ZX" and command_line(pid) == ""


def watch_supervisor() -> None:
    """Stop a supervised process when its supervisor has gone, at most eight seconds later.

    This covers systems whose kernel sends no signal at a parent's death, and a shutdown that hangs because it
    waits for something that has gone as well. Without a supervisor it does nothing.
    """
    supervisor = os.environ.pop(SUPERVISOR, None)
    if supervisor is None:
        return

    def watch() -> None:
        while os.getppid() == int(supervisor):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_ORPHAN_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="supervisor watch", daemon=True).start()
