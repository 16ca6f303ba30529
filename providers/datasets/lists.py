"""Lists that publishers offer as small files, mostly of address ranges: fetched together, packed as one.

If one file of a list fails, the whole list stays at its old version. A version is a day: no publisher is
asked twice a day for the same list.
"""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from outbound.addresses import without_credentials
from outbound.errors import OutboundError
from providers.datasets.downloads import Download, DownloadError, Tools, make_download, progress_of, stem_of
from providers.datasets.ranges import Range
from settings import Settings

_MOST_BYTES = 64 * 1024 * 1024
_CONNECT_SECONDS = 2.0  # a start must not wait long for optional lists


@dataclass(frozen=True)
class Lists:
    """The files of one list, at their publishers.

    Attributes:
        name: the publisher's common name.
        source: the lookup source whose base URL setting names a mirror with the same paths.
        files: name → URL.
        licence: the licence of the data.
    """

    name: str
    source: str
    files: Mapping[str, str]
    licence: str

    @property
    def label(self) -> str:
        """The publisher's name."""
        return self.name

    def address(self, settings: Settings) -> str:
        """Return the URLs of the files, or the operator's server in their place."""
        mirror = settings.provider(self.source).base_url
        return " ".join(self.files.values()) if mirror is None else without_credentials(mirror)

    async def obtain(self, dataset: str, tools: Tools, have: str | None) -> Download | None:
        """Download all files at once; give up on an unreachable server after two seconds."""
        version = f"{datetime.now(UTC):%Y-%m-%d}"
        if version == have:
            return None
        address = self.address(tools.settings)
        stem = f"{stem_of(dataset, address)}-{version}"
        parts = {name: tools.folder / f"{stem}-{name}.part" for name in self.files}
        file = f"{stem}.zip"
        try:
            await asyncio.gather(*(self._get(dataset, name, path, tools) for name, path in parts.items()))
            await asyncio.to_thread(_pack, parts, tools.folder / f"{file}.part")
            (tools.folder / f"{file}.part").replace(tools.folder / file)
        finally:
            for path in parts.values():
                path.unlink(missing_ok=True)
        mirror = tools.settings.provider(self.source).base_url
        return make_download(self.label, version, self.licence, file, address, mirror)

    async def _get(self, dataset: str, name: str, path: Path, tools: Tools) -> None:
        url, mirror = self.files[name], tools.settings.provider(self.source).base_url
        if mirror is not None:
            url = mirror.rstrip("/") + urlsplit(url).path
        host = urlsplit(url).netloc
        try:
            status = await tools.outbound.download(
                self.source,
                url,
                path,
                max_bytes=_MOST_BYTES,
                connect_timeout=_CONNECT_SECONDS,
                progress=progress_of(f"{dataset}: from {host}", tools.report),
            )
        except OutboundError as error:
            raise DownloadError(f"{host} cannot be reached ({error.code})") from None
        if status != 200:
            raise DownloadError(f"{host} answers {status}")


def _pack(parts: Mapping[str, Path], target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in parts.items():
            archive.write(path, name)


def read_files(download: Path) -> dict[str, bytes]:
    """Return the files of a download: name → content."""
    try:
        with zipfile.ZipFile(download) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile:
        raise ValueError("the download is damaged") from None


def lines(content: bytes) -> Iterator[str]:
    """Yield the lines of a text file, without comments and blank lines."""
    for line in content.decode().splitlines():
        line = line.partition("#")[0].strip()
        if line:
            yield line


def merge_networks(networks: Iterable[str], label: str, *, fewest: int) -> list[Range]:
    """Return networks and addresses as ranges with one label, with overlapping and adjacent ones joined.

    Raises:
        ValueError: if an item is no network, or there are fewer than `fewest` items, as in a damaged list.
    """
    found: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
    for text in networks:
        network = ip_network(text, strict=False)
        found[network.version].append((int(network.network_address), int(network.broadcast_address)))
    count = len(found[4]) + len(found[6])
    if count < fewest:
        raise ValueError(f"only {count} networks")
    ranges: list[Range] = []
    for version, size in ((4, 4), (6, 16)):
        for start, end in _join_ranges(sorted(found[version])):
            ranges.append(Range(start.to_bytes(size), end.to_bytes(size), label))
    return ranges


def _join_ranges(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in rows:
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
