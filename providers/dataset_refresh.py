"""The refresh of lookup data: download, verify, build, swap.

A failure at any point leaves the old data in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import orjson

from outbound.client import Outbound
from process import python_like_this
from providers.dataset_inventory import fields_of, is_wanted
from providers.datasets import installed
from providers.datasets.downloads import (
    Dataset,
    Download,
    DownloadError,
    Report,
    Tools,
    downloads_folder,
    find_download,
    remember,
)
from providers.datasets.installed import Installed, Provenance
from providers.registry import DATASETS
from settings import Settings

_LOCK_POLL_SECONDS = 0.2
_SHRINKS_NOT = timedelta(days=30)


@dataclass(frozen=True)
class FetchResult:
    """The result of fetching one dataset.

    Attributes:
        name: the dataset.
        status: `installed` now; `present` already, so nothing was fetched; `failed`; or `unavailable`, a
            harmless failure of an optional dataset.
        version: the version that is in use, None if the dataset is missing.
        detail: where it came from, or why it failed.
    """

    name: str
    status: Literal["installed", "present", "failed", "unavailable"]
    version: str | None
    detail: str

    @property
    def failed(self) -> bool:
        """Return whether the fetch failed."""
        return self.status in ("failed", "unavailable")

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that its sources fill."""
        return fields_of(self.name)


async def fetch(
    settings: Settings,
    *,
    if_missing: bool = False,
    report: Report,
    datasets: Mapping[str, Dataset] = DATASETS,
) -> list[FetchResult]:
    """Fetch the newest version of every needed dataset into the data folder.

    A dataset that cannot be fetched is reported as failed and keeps its old version; no error is raised.
    Concurrent calls are safe: the second waits for the first.

    Args:
        settings: the data folder, and the operator's base URLs.
        if_missing: fetch only missing datasets, and accept a recent download.
        report: receives progress lines for people, whenever a step takes longer than two seconds.
        datasets: the datasets to consider.

    Raises:
        OSError: if the data folder or the folder of downloads cannot be written to.
    """
    installed.folder(settings.data).mkdir(parents=True, exist_ok=True)
    downloads_folder().mkdir(parents=True, exist_ok=True)
    async with (
        _lock_folder(downloads_folder(), report),
        _lock_folder(installed.folder(settings.data), report),
        Outbound(settings) as outbound,
    ):
        tools = Tools(settings, outbound, downloads_folder(), report)
        wanted = [one for one in datasets.values() if is_wanted(one, settings)]
        fetched = await asyncio.gather(*(_fetch(one, tools, if_missing=if_missing) for one in wanted))
        _keep_failures(settings.data, fetched, if_missing=if_missing)
        return list(fetched)


def _keep_failures(data: Path, fetched: Sequence[FetchResult], *, if_missing: bool) -> None:
    """Store which datasets failed, for later inspection. Datasets that were not tried keep their entry."""
    tried = [one for one in fetched if not (if_missing and one.status == "present")]
    kept = installed.read_failures(data)
    failures = {name: why for name, why in kept.items() if name not in {one.name for one in tried}}
    failures |= {one.name: one.detail for one in tried if one.failed}
    if failures != kept:
        installed.write_failures(data, failures)


async def _fetch(dataset: Dataset, tools: Tools, *, if_missing: bool) -> FetchResult:
    known = installed.whole(tools.settings.data, dataset.name)
    addresses = {origin.label: origin.address(tools.settings) for origin in dataset.origins}
    if if_missing and known and known.address in (*addresses.values(), ""):
        return FetchResult(dataset.name, "present", known.version, "already there")
    reasons: list[str] = []
    if if_missing:
        recent = _recent(dataset, tools, addresses.values())
        try:
            if recent is not None:
                return await _install(dataset, recent, tools)
        except (DownloadError, OSError) as error:
            reasons.append(f"the earlier download: {error}")
    for origin in dataset.origins:
        have = known.version if known and known.address == addresses[origin.label] else None
        try:
            download = await origin.obtain(dataset.name, tools, have)
            if download is None:
                return FetchResult(dataset.name, "present", have, f"the newest of {origin.label}")
            fetched = await _install(dataset, download, tools)
        except (DownloadError, OSError) as error:
            reasons.append(str(error))
            tools.report(f"{dataset.name}: {error}")
            if have is not None:
                break  # the next origins are second best, and may be older than the installed version
        else:
            remember(tools.folder, dataset.name, download)
            return fetched
    status = "unavailable" if dataset.optional else "failed"
    return FetchResult(dataset.name, status, known.version if known else None, "; ".join(reasons))


def _recent(dataset: Dataset, tools: Tools, addresses: Iterable[str]) -> Download | None:
    """Return the first recent enough download from these addresses, which come best first."""
    found = (
        find_download(tools.folder, dataset.name, one, youngest=dataset.good_enough) for one in addresses
    )
    return next((one for one in found if one is not None), None)


async def _install(dataset: Dataset, download: Download, tools: Tools) -> FetchResult:
    """Build the dataset, and install the result."""
    data = tools.settings.data
    started = time.monotonic()
    files = await _build(dataset, tools.folder / download.file, installed.folder(data))
    _check_size(files, installed.whole(data, dataset.name))
    if time.monotonic() - started > 2:
        tools.report(f"{dataset.name}: built in {time.monotonic() - started:.0f} s")
    provenance = Provenance(
        source=download.origin,
        version=download.version,
        licence=download.licence,
        fetched_at=download.fetched_at,
        address=download.address,
        mirror=download.mirror,
    )
    await asyncio.to_thread(installed.install, data, dataset.name, files, provenance)
    return FetchResult(dataset.name, "installed", download.version, f"from {download.origin}")


def _check_size(files: Mapping[str, Path], before: Installed | None) -> None:
    """Reject data of less than half the size of the data it would replace, unless the latter is a month old.

    A truncated file of a publisher can be well-formed. Data that stays small for a month is taken as correct.

    Raises:
        DownloadError: if the data is too small.
    """
    if before is None or datetime.now(UTC) - before.fetched_at > _SHRINKS_NOT:
        return
    old = sum(file.bytes for file in before.files.values())
    new = sum(path.stat().st_size for path in files.values())
    if new * 2 < old:
        raise DownloadError(f"the data is not usable ({new} bytes, where there were {old})")


async def _build(dataset: Dataset, download: Path, folder: Path) -> dict[str, Path]:
    """Build in a separate process, because that takes seconds and memory; small datasets in a thread."""
    if dataset.small:
        try:
            return await asyncio.to_thread(dataset.build, download, folder)
        except ValueError as error:
            raise DownloadError(f"the data is not usable ({error})") from None
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "providers.dataset_refresh",
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
async def _lock_folder(folder: Path, report: Report) -> AsyncGenerator[None]:
    """Hold the lock of `folder`; the system releases it if this process dies."""
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
    """Delete the partial files of interrupted fetches, also of this one."""
    for path in (*folder.glob("*.new"), *folder.glob("*.part")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _main(name: str, download: str, folder: str) -> None:
    """Run the building process: print role → file as JSON, or end with the error as the last line."""
    files = DATASETS[name].build(Path(download), Path(folder))
    sys.stdout.buffer.write(orjson.dumps({role: str(path) for role, path in files.items()}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
