"""The installed lookup data of this machine: `<data>/datasets/`, whose `manifest.json` lists the valid files.

A new version arrives as files with new names. Replacing the manifest is the single moment at which it takes
effect, for all its files at once. Readers check the manifest now and then, and need no restart.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

import logs

_log = logs.get(__name__)
_CHECK_SECONDS = 2.0
_MANIFEST = "manifest.json"
_FAILURES = "failures.json"
_DAY = re.compile(r"(?<!\d)(20\d\d)-?(\d\d)(?:-?(\d\d))?")

# Threads install datasets at the same time; a lock of `dataset_refresh.fetch` keeps processes apart.
_manifest_lock = threading.Lock()

Opened = TypeVar("Opened")
_FAILURES_OF = TypeAdapter(dict[str, str])


class InstalledFile(BaseModel, frozen=True):
    """One file of a dataset, beside the manifest."""

    name: str
    bytes: int
    sha256: str


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class Provenance(BaseModel, frozen=True):
    """The origin of the data of a dataset.

    Attributes:
        source: its publisher, and the way it came.
        version: the publisher's name for this version.
        licence: the licence of the data.
        fetched_at: when it was fetched.
        address: where it came from.
        mirror: the server, if the operator had replaced the publisher's.
    """

    source: str
    version: str
    licence: str
    fetched_at: datetime = Field(default_factory=_now)
    address: str = ""
    mirror: str | None = None


class Installed(Provenance, frozen=True):
    """An installed dataset, with its files by role."""

    files: dict[str, InstalledFile]

    @property
    def dated(self) -> datetime:
        """The date of the data: the day or month in its version, or else the time of the fetch."""
        found = _DAY.search(self.version)
        try:
            day = datetime(*(int(part or 1) for part in found.groups()), tzinfo=UTC) if found else None
        except ValueError:
            day = None
        return min(day, self.fetched_at) if day else self.fetched_at


class Manifest(BaseModel, frozen=True):
    """The installed datasets, by name."""

    datasets: dict[str, Installed] = {}


def folder(data: Path) -> Path:
    """Return the folder of the datasets in the data folder `data`."""
    return data / "datasets"


def read_manifest(data: Path) -> Manifest:
    """Return the installed datasets. A missing or unreadable manifest counts as empty."""
    path = folder(data) / _MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Manifest()
    except (OSError, ValidationError) as error:
        _log.warning("manifest_unreadable", path=str(path), error=type(error).__name__)
        return Manifest()


def whole(data: Path, name: str) -> Installed | None:
    """Return the dataset `name` if all its files exist with their full size."""
    installed = read_manifest(data).datasets.get(name)
    return installed if installed and is_whole(data, installed) else None


def is_whole(data: Path, installed: Installed) -> bool:
    """Return whether all files exist with their full size."""
    paths = {folder(data) / file.name: file.bytes for file in installed.files.values()}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


def read_failures(data: Path) -> dict[str, str]:
    """Return the reason of each dataset whose last fetch failed, by its name."""
    try:
        return _FAILURES_OF.validate_json((folder(data) / _FAILURES).read_bytes())
    except (OSError, ValidationError):
        return {}


def write_failures(data: Path, failures: Mapping[str, str]) -> None:
    """Store why the last fetch of each of these datasets failed, replacing all earlier failures."""
    _replace(folder(data) / _FAILURES, _FAILURES_OF.dump_json(dict(failures), indent=2))


def install(data: Path, name: str, files: Mapping[str, Path], provenance: Provenance) -> Installed:
    """Install `files` as the dataset `name` in one step, and remove the previous version.

    Args:
        data: the data folder.
        name: the dataset.
        files: role → a complete file inside `folder(data)`, which is renamed.
        provenance: where the data is from.
    """
    named: dict[str, InstalledFile] = {}
    for role, path in files.items():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        target = path.with_name(f"{name}-{role}-{digest[:12]}")
        named[role] = InstalledFile(name=target.name, bytes=path.stat().st_size, sha256=digest)
        path.replace(target)
    installed = Installed.model_validate({
        **provenance.model_dump(), "fetched_at": provenance.fetched_at.replace(microsecond=0), "files": named
    })  # fmt: skip
    with _manifest_lock:
        manifest = Manifest(datasets={**read_manifest(data).datasets, name: installed})
        _replace(folder(data) / _MANIFEST, manifest.model_dump_json(indent=2).encode())
    kept = {file.name for file in named.values()}
    for path in folder(data).glob(f"{name}-*"):
        if path.name not in kept:
            path.unlink()
    return installed


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Datasets:
    """Reads the installed datasets, and detects within two seconds that one was replaced."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._manifest = Manifest()
        self._stamp: tuple[int, int, int] | None = None
        self._check_at = 0.0
        self._opened: dict[str, Any] = {}
        self._fetched_at: dict[str, float] = {}

    def get(self, name: str, opener: Callable[[Mapping[str, Path]], Opened]) -> Opened | None:
        """Return the reader of the dataset `name`, opened once; None while the dataset is not installed.

        Args:
            name: the dataset.
            opener: makes the reader from role → path; the same function for every call with this name.
        """
        now = time.monotonic()
        if now >= self._check_at:
            self._check_at = now + _CHECK_SECONDS
            self._look()
        if name not in self._opened:
            self._opened[name] = self._open(name, opener)
        return self._opened[name]

    def info(self, name: str) -> Installed | None:
        """Return the manifest entry of the dataset `name`, or None if it is not installed."""
        self._look()
        return self._manifest.datasets.get(name)

    def usable(self, name: str) -> Installed | None:
        """Return the manifest entry of the dataset `name`, or None if a file of it is missing."""
        installed = self.info(name)
        return installed if installed and is_whole(self._data, installed) else None

    def fetched_at(self, name: str) -> float | None:
        """Return when the version of `name` that was read last was fetched, in Unix seconds."""
        return self._fetched_at.get(name)

    def _look(self) -> None:
        try:
            status = (folder(self._data) / _MANIFEST).stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        except FileNotFoundError:
            stamp = None
        if stamp == self._stamp:
            return
        before, self._manifest = self._manifest.datasets, read_manifest(self._data)
        self._stamp = stamp
        datasets = self._manifest.datasets.items()
        self._fetched_at = {name: installed.fetched_at.timestamp() for name, installed in datasets}
        for name in {*before, *self._manifest.datasets, *self._opened}:
            if before.get(name) != self._manifest.datasets.get(name) or self._opened.get(name) is None:
                self._opened.pop(name, None)

    def _open(self, name: str, opener: Callable[[Mapping[str, Path]], Opened]) -> Opened | None:
        installed = self._manifest.datasets.get(name)
        if installed is None:
            return None
        try:
            return opener({role: folder(self._data) / file.name for role, file in installed.files.items()})
        except (OSError, ValueError) as error:
            _log.warning("dataset_unreadable", dataset=name, error=str(error))
            return None
