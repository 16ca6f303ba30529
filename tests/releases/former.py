"""The code of a former release, taken from the repository, and its processes beside those of this one."""

from __future__ import annotations

import hashlib
import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path

from embedded.process import bound_to_parent
from tests.stacks import ROOT

_PIN = re.compile(r"^([a-z0-9][\w.\-\[\]]*==\S+)", re.MULTILINE)
_LOCK = "requirements.lock"


def base_commit() -> str:
    """The commit of the release that this one runs beside."""
    return (Path(__file__).parent / "base.txt").read_text("utf-8").strip()


def has_history() -> bool:
    """Whether the repository has that commit: an archive of the sources, or a shallow clone, lacks it."""
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{base_commit()}^{{commit}}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Release:
    """A release: a folder with its code, and a Python that has its packages."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = python

    def start(self, part: str, environment: Mapping[str, str], log: Path) -> Part:
        """Start an api or a worker."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [self.python, str(self.folder / "cli" / "__main__.py"), part],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=bound_to_parent(signal.SIGKILL),
            )
        return Part(process, log)

    def run(self, *arguments: str, environment: Mapping[str, str]) -> str:
        """Run a command to its end; what it has printed."""
        command = [self.python, str(self.folder / "cli" / "__main__.py"), *arguments]
        done = subprocess.run(
            command, env=dict(environment), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Part:
    """A process of a release."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self._from = log.stat().st_size

    @property
    def said(self) -> str:
        """Return what it has logged."""
        return self.log.read_bytes()[self._from :].decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """Ask it to end, as a supervisor does; a process that has ended is left alone."""
        if self.is_alive:
            os.kill(self.process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it for good."""
        self.process.kill()
        self.process.wait()


def this_release() -> Release:
    """The code of this checkout."""
    return Release(ROOT)


def former_release(folder: Path) -> Release:
    """Unpack the former release into a folder, with an environment of its own if it needs other packages."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", base_commit()], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    lock = (folder / _LOCK).read_text("utf-8")
    if set(_PIN.findall(lock)) <= set(_PIN.findall((ROOT / _LOCK).read_text("utf-8"))):
        return Release(folder)
    return Release(folder, _environment_of(folder, lock))


def _environment_of(folder: Path, lock: str) -> str:
    """An environment with the packages of a lock file, kept from one session to the next."""
    name = hashlib.sha256((sys.version + lock).encode()).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"vedette-former-{name}"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        for arguments in (["--require-hashes", "-r", str(folder / _LOCK)], ["--no-deps", str(folder)]):
            subprocess.run([python, "-m", "pip", "install", "-q", *arguments], check=True)
        (home / "ready").touch()
    return str(python)
