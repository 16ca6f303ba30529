"""A whole stack for benchmarks: `vedette up` on a random port with a data folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

_TICKS = os.sysconf("SC_CLK_TCK")
_NAMES = {"api": " api", "worker": " worker", "temporal": "temporal", "postgres": "postgres"}


@dataclass(frozen=True)
class Stack:
    """A running stack."""

    url: str
    key: str
    data: Path
    pid: int

    def processes(self) -> dict[str, list[int]]:
        """The process ids by part."""
        found: dict[str, list[int]] = {name: [] for name in _NAMES}
        for pid in _descendants(self.pid):
            command = _command(pid)
            for name, mark in _NAMES.items():
                if command.endswith(mark) if mark.startswith(" ") else mark in command.split(" ")[0]:
                    found[name].append(pid)
        return found

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds used so far, by part, children that ended included."""
        return {name: sum(map(_cpu, pids)) for name, pids in self.processes().items()}

    def rss_mib(self) -> dict[str, int]:
        """Resident memory by part. Postgres shares pages: its sum counts them more than once."""
        return {name: sum(map(_rss, pids)) // 2**20 for name, pids in self.processes().items()}


def machine() -> str:
    """One line on the machine that a figure was taken on."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "?"
    )
    return f"{os.cpu_count()} cores, {model}, Python {platform.python_version()}"


@contextlib.contextmanager
def running(**environ: str) -> Generator[Stack]:
    """A stack for the time of the block."""
    data = Path(tempfile.mkdtemp(prefix="vedette-bench-"))
    data.chmod(0o711)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "VEDETTE_DATA": str(data),
        "VEDETTE_PORT": str(port),
        "VEDETTE_ALLOW_PRIVATE_NETWORKS": "127.0.0.1/32",
        **environ,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "up"], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(process, url)
        account = json.loads((data / "first-account.json").read_text())
        yield Stack(url, account["api_key"], data, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        shutil.rmtree(data)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the stack ended with exit code {process.returncode}")
        with contextlib.suppress(httpx.TransportError):
            checks = httpx.get(f"{url}/readyz").json()["checks"]
            if all(checks[part] == "ok" for part in ("database", "temporal", "workers")):
                return
        time.sleep(0.1)
    raise SystemExit("the stack did not become ready")


def _lines(path: str) -> Iterator[str]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        yield from file


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pids = children.get(waiting.pop(), [])
        found += pids
        waiting += pids
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


def _cpu(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def _rss(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
