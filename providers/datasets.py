"""Fetching lookup data: download, verify, build, swap. A failure at any point leaves the old data in use."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson

from outbound.client import Outbound
from process import python_like_this
from providers import installed
from providers.downloads import (
    Dataset,
    Download,
    DownloadError,
    Report,
    Tools,
    downloads_folder,
    remember,
    remembered,
)
from providers.registry import DATASETS
from settings import Settings

_LOCK_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Fetched:
    """What became of one dataset.

    Attributes:
        name: the dataset.
        status: `installed` now; `present` already, so that nothing was fetched; `failed`; or `unavailable`,
            which is a failure that does no harm, for the data is optional.
        version: the one that is installed, None if none is.
        detail: where it came from, or why it failed.
    """

    name: str
    status: Literal["installed", "present", "failed", "unavailable"]
    version: str | None
    detail: str


async def fetch(
    settings: Settings,
    *,
    if_missing: bool = False,
    report: Report,
    datasets: Mapping[str, Dataset] = DATASETS,
) -> list[Fetched]:
    """Fetch the newest version of every dataset that is wanted into the data folder.

    What cannot be fetched is reported as such and keeps its old version; it raises nothing for that.
    Safe to run more than once at a time: the second waits for the first.

    Args:
        settings: the data folder, and base URLs of the operator's own.
        if_missing: fetch only what is not there, and be content with a recent download.
        report: told what is being done, in lines for people, whenever it takes longer than two seconds.
        datasets: which.

    Raises:
        OSError: if the data folder or the folder of downloads cannot be written to.
    """
    installed.folder(settings.data).mkdir(parents=True, exist_ok=True)
    downloads_folder().mkdir(parents=True, exist_ok=True)
    async with (
        _locked(downloads_folder(), report),
        _locked(installed.folder(settings.data), report),
        Outbound(settings) as outbound,
    ):
        tools = Tools(settings, outbound, downloads_folder(), report)
        wanted = [
            one for one in datasets.values() if not one.only_for or settings.provider(one.only_for).enabled
        ]
        return list(await asyncio.gather(*(_fetch(one, tools, if_missing=if_missing) for one in wanted)))


async def _fetch(dataset: Dataset, tools: Tools, *, if_missing: bool) -> Fetched:
    data = tools.settings.data
    if if_missing and installed.is_installed(data, dataset.name):
        return Fetched(dataset.name, "present", _version(data, dataset), "already there")
    recent = remembered(tools.folder, dataset.name, youngest=dataset.good_enough) if if_missing else None
    reasons: list[str] = []
    if recent is not None:
        try:
            return await _install(dataset, recent, tools)
        except (DownloadError, OSError) as error:
            reasons.append(f"the earlier download: {error}")
    known = installed.read_manifest(data).datasets.get(dataset.name)
    whole = known is not None and installed.is_installed(data, dataset.name)
    have = {known.source: known.version} if known and whole else {}
    for origin in dataset.origins:
        try:
            download = await origin.obtain(dataset.name, tools, have.get(origin.label))
            if download is None:
                return Fetched(dataset.name, "present", have[origin.label], f"the newest of {origin.label}")
            fetched = await _install(dataset, download, tools)
        except (DownloadError, OSError) as error:
            reasons.append(str(error))
            tools.report(f"{dataset.name}: {error}")
            if origin.label in have:
                break  # what comes after is second best, and may be older than what is there
        else:
            remember(tools.folder, dataset.name, download)
            return fetched
    status = "unavailable" if dataset.optional else "failed"
    return Fetched(dataset.name, status, _version(data, dataset), "; ".join(reasons))


async def _install(dataset: Dataset, download: Download, tools: Tools) -> Fetched:
    """Build, and put the result in place."""
    data = tools.settings.data
    started = time.monotonic()
    files = await _build(dataset, tools.folder / download.file, installed.folder(data))
    if time.monotonic() - started > 2:
        tools.report(f"{dataset.name}: built in {time.monotonic() - started:.0f} s")
    await asyncio.to_thread(
        installed.install,
        data,
        dataset.name,
        files,
        source=download.origin,
        version=download.version,
        licence=download.licence,
        fetched_at=download.fetched_at,
    )
    return Fetched(dataset.name, "installed", download.version, f"from {download.origin}")


async def _build(dataset: Dataset, download: Path, folder: Path) -> dict[str, Path]:
    """Build in a process of its own, for that takes seconds and memory; what is small, in a thread."""
    if dataset.small:
        try:
            return await asyncio.to_thread(dataset.build, download, folder)
        except ValueError as error:
            raise DownloadError(f"the data is not usable ({error})") from None
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "providers.datasets",
        dataset.name,
        str(download.absolute()),
        str(folder.absolute()),
        cwd=Path(__file__).parents[1],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        **python_like_this(),
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise DownloadError(f"the data is not usable ({lines[-1] if lines else process.returncode})")
    return {role: Path(path) for role, path in orjson.loads(output).items()}


@contextlib.asynccontextmanager
async def _locked(folder: Path, report: Report) -> AsyncGenerator[None]:
    """Hold the lock of `folder`; the system lets go of it if this process dies."""
    with (folder / ".lock").open("w") as lock:
        told = False
        while not _try_lock(lock.fileno()):
            if not told:
                report(f"another fetch is at work in {folder}; waiting for it")
                told = True
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        _remove_leftovers(folder)
        try:
            yield
        finally:
            _remove_leftovers(folder)


def _remove_leftovers(folder: Path) -> None:
    """Delete what an interrupted fetch began, this one or an earlier one."""
    for path in (*folder.glob("*.new"), *folder.glob("*.part")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _version(data: Path, dataset: Dataset) -> str | None:
    known = installed.read_manifest(data).datasets.get(dataset.name)
    return known.version if known else None


def _main(name: str, download: str, folder: str) -> None:
    """The process that builds: prints role → file as JSON, or ends with what is wrong as its last line."""
    files = DATASETS[name].build(Path(download), Path(folder))
    sys.stdout.buffer.write(orjson.dumps({role: str(path) for role, path in files.items()}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
