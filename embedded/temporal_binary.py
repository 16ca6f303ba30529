"""The Temporal server's program: found on this machine, downloaded, or built.

It is the `temporal` command line tool, which holds a whole development server with a SQLite store.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from embedded.process import bound_to_parent
from embedded.report import Report
from settings import ExitCode, StartError

VERSION = "1.9.1"
"""The release that is downloaded or built; `embedded/temporal/go.mod` names the same one."""

_LEAST_SERVER = (1, 31)  # the first with stable priority and fairness
_MODULE = Path(__file__).parent / "temporal"
_PACKAGE = "github.com/temporalio/cli/cmd/temporal"
_DOWNLOADS = "https://temporal.download/cli"
_PROBE_SECONDS = 4
_ANSWER_SECONDS = 10
_DOWNLOAD_SECONDS = 300
_NICENESS = 10  # for a build, which uses every processor for minutes while requests must be answered


def cache_folder(data: Path) -> Path:
    """Return the program's folder: outside checkout and data, so that it is made once for a user.

    If the user has no writable home, it is in the data folder.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for root in (Path(home), data / "cache"):
        folder = root / "vedette" / "temporal" / VERSION
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    raise StartError(f"Neither {home} nor {data} can be written to.", ExitCode.DATA_FOLDER)


def server_version(program: Path | str) -> tuple[int, int] | None:
    """Return the version of the server inside a `temporal` program, or None if it does not run."""
    try:
        answer = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"Server (\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else None


def present(cache: Path) -> Path | None:
    """Return a program that is new enough: on PATH, else in the cache; else None."""
    for candidate in (shutil.which("temporal"), str(cache / "temporal")):
        found = server_version(candidate) if candidate else None
        if candidate and found and found >= _LEAST_SERVER:
            return Path(candidate)
    return None


async def obtain(data: Path, report: Report) -> Path:
    """Find the program, or download or build it, in that order.

    Raises:
        StartError: naming the ways to provide one.
    """
    cache = cache_folder(data)
    if found := await _present(cache):
        return found
    async with _alone(cache, report):
        if found := await _present(cache):  # another start made it meanwhile
            return found
        if await _download(cache, report) and (found := await _present(cache)):
            return found
        problem = await _build(cache, report)
        if not problem and (found := await _present(cache)):
            return found
    least = ".".join(map(str, _LEAST_SERVER))
    raise StartError(
        f"There is no Temporal server: none on PATH or in {cache}, no download, "
        f"{problem or 'and what was built does not run'}.\n"
        "Any one of four ways provides it: TEMPORAL_ADDRESS=<host:port> of one that runs; the `temporal` "
        f"command (server {least} or newer) on PATH;\n"
        "a network that reaches temporal.download; or Go 1.26.8 or newer on PATH and a module proxy, to "
        "build it once in about four minutes.",
        ExitCode.TEMPORAL,
    )


async def _present(cache: Path) -> Path | None:
    """Return the same from a thread, so that a hanging program blocks neither the API's start nor Ctrl-C."""
    return await asyncio.to_thread(present, cache)


@contextlib.asynccontextmanager
async def _alone(cache: Path, report: Report) -> AsyncGenerator[None]:
    """Lock the making of the program to one process; others wait, and then find it made."""
    with (cache / "lock").open("w") as lock:
        async with report.during("temporal", "waiting for another start that is making the server"):
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.2)
        yield


async def _download(cache: Path, report: Report) -> bool:
    """Download the program by the SDK; give up quickly if its publisher is unreachable."""
    import httpx
    from temporalio.testing import WorkflowEnvironment

    try:
        async with httpx.AsyncClient(timeout=_PROBE_SECONDS) as client:
            await client.head(f"{_DOWNLOADS}/v{VERSION}")
    except httpx.HTTPError:
        return False
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        try:
            async with report.during("temporal", "downloading the server, once"):
                # The SDK downloads as part of starting a server, which is in memory and stopped again.
                starting = WorkflowEnvironment.start_local(  # pyright: ignore[reportUnknownMemberType]
                    download_dest_dir=folder, dev_server_download_version=f"v{VERSION}"
                )
                environment = await asyncio.wait_for(starting, _DOWNLOAD_SECONDS)
                await environment.shutdown()
        except (RuntimeError, TimeoutError) as error:
            report.say("temporal", f"the download failed: {str(error).splitlines()[0]}")
            return False
        for downloaded in Path(folder).iterdir():
            if server_version(downloaded):
                os.replace(downloaded, cache / "temporal")
                return True
    return False


async def _build(cache: Path, report: Report) -> str:
    """Build the program from its published modules; return the obstacle, or an empty text."""
    go = shutil.which("go")
    if go is None:
        return "and there is no Go to build one"
    for left in cache.glob("temporal.*"):
        left.unlink()  # of a killed build: this one holds the lock
    log = cache / "build.log"
    target = cache / f"temporal.{os.getpid()}"
    flags = f"-s -w -X github.com/temporalio/cli/internal/temporalcli.Version={VERSION}"
    command = [go, "build", "-trimpath", "-ldflags", flags, "-o", str(target), _PACKAGE]
    try:
        async with report.during("temporal", "building the server with Go, once; about four minutes"):
            with log.open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=_MODULE,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=bound_to_parent(niceness=_NICENESS),
                )
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                os.killpg(process.pid, signal.SIGTERM)  # also the compilers
                raise
        if code == 0:
            os.replace(target, cache / "temporal")
            return ""
    finally:
        target.unlink(missing_ok=True)
    words = log.read_text(errors="replace").strip().splitlines()
    return f"and the build failed ({words[-1] if words else f'exit code {code}'}; see {log})"
