"""Address ranges → labels in one file: sorted arrays, read through mmap and searched by bisection.

Many processes share its pages; opening takes a millisecond, whatever its size. Where ranges overlap, the
narrowest one wins. The file is written and read on the same machine, so it uses the machine's byte order.

Layout: magic (u32), then the counts of IPv4 ranges, IPv6 ranges and labels, and the bytes of label text (u32
each); then the IPv4 starts, ends and labels (u32 each), the label offsets (u32, one more than labels), the
IPv6 labels (u32), the IPv6 starts and ends (16 bytes each, big-endian), and the text of the labels.
"""

from __future__ import annotations

import heapq
import mmap
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, overload

_MAGIC = 0x5645_4431
_HEADER_WORDS = 5


class Range(NamedTuple):
    """The addresses from `start` to `end`, both included, as big-endian bytes (4 or 16), and their label."""

    start: bytes
    end: bytes
    label: str


class RangeFileError(ValueError):
    """The file was not written by `write` on this machine, or it is truncated."""


def write(path: Path, ranges: Iterable[Range]) -> int:
    """Write the ranges to `path`; return how many there are after overlaps are resolved."""
    labels: dict[str, int] = {}
    found: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    for start, end, label in ranges:
        number = labels.setdefault(label, len(labels))
        found[len(start) == 16].append((int.from_bytes(start), int.from_bytes(end), number))
    v4, v6 = (disjoint(rows) for rows in found)
    texts = [label.encode() for label in labels]
    offsets = array("I", [0])
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    with path.open("wb") as file:
        array("I", [_MAGIC, len(v4), len(v6), len(texts), offsets[-1]]).tofile(file)
        for column in range(3):
            array("I", [row[column] for row in v4]).tofile(file)
        offsets.tofile(file)
        array("I", [row[2] for row in v6]).tofile(file)
        for column in range(2):
            file.write(b"".join(row[column].to_bytes(16) for row in v6))
        file.write(b"".join(texts))
        file.flush()
        os.fsync(file.fileno())
    return len(v4) + len(v6)


def disjoint(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return sorted, non-overlapping ranges, where every address has the label of its narrowest range.

    If two ranges are equally narrow, the first one in `rows` wins.
    """
    order = sorted(range(len(rows)), key=lambda index: rows[index][:2])
    if all(rows[a][1] < rows[b][0] for a, b in pairwise(order)):
        return [rows[index] for index in order]
    edges = sorted({edge for start, end, _ in rows for edge in (start, end + 1)})
    result: list[tuple[int, int, int]] = []
    open_ranges: list[tuple[int, int, int]] = []  # a heap of (width, position in rows, end)
    position = 0
    for start, following in pairwise(edges):
        while position < len(order) and rows[order[position]][0] <= start:
            first, last, _ = rows[order[position]]
            heapq.heappush(open_ranges, (last - first, order[position], last))
            position += 1
        while open_ranges and open_ranges[0][2] < start:
            heapq.heappop(open_ranges)
        if open_ranges:
            label = rows[open_ranges[0][1]][2]
            if result and result[-1][1] == start - 1 and result[-1][2] == label:
                result[-1] = (result[-1][0], following - 1, label)
            else:
                result.append((start, following - 1, label))
    return result


class _Blocks(Sequence[bytes]):
    """A sequence of 16-byte keys inside a buffer."""

    def __init__(self, buffer: memoryview, count: int) -> None:
        self._buffer = buffer
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        assert isinstance(index, int)
        return bytes(self._buffer[index * 16 : index * 16 + 16])


class RangeTable:
    """A file made by `write`, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            RangeFileError: if it is truncated, or was written on another machine.
            OSError: if it cannot be opened.
        """
        with path.open("rb") as file:
            try:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            except ValueError:
                raise RangeFileError("the file is empty") from None
        if len(data) < _HEADER_WORDS * 4:
            raise RangeFileError("the file is cut short")
        magic, n4, n6, labels, text = data[: _HEADER_WORDS * 4].cast("I")
        sizes = [n4 * 4, n4 * 4, n4 * 4, (labels + 1) * 4, n6 * 4, n6 * 16, n6 * 16, text]
        if magic != _MAGIC or sum(sizes) + _HEADER_WORDS * 4 != len(data):
            raise RangeFileError("the file is cut short, or of another kind or machine")
        parts: list[memoryview] = []
        offset = _HEADER_WORDS * 4
        for size in sizes:
            parts.append(data[offset : offset + size])
            offset += size
        self._starts4, self._ends4, self._labels4, self._offsets, self._labels6 = (
            part.cast("I") for part in parts[:5]
        )
        self._starts6, self._ends6 = _Blocks(parts[5], n6), _Blocks(parts[6], n6)
        self._text = parts[7]

    def __len__(self) -> int:
        return len(self._starts4) + len(self._starts6)

    def find(self, packed: bytes) -> str | None:
        """Return the label of the range that holds the address `packed` (4 or 16 bytes), or None."""
        if len(packed) == 4:
            number = int.from_bytes(packed)
            index = bisect_right(self._starts4, number) - 1
            if index < 0 or number > self._ends4[index]:
                return None
            return self._label(self._labels4[index])
        index = bisect_right(self._starts6, packed) - 1
        if index < 0 or packed > self._ends6[index]:
            return None
        return self._label(self._labels6[index])

    def _label(self, number: int) -> str:
        return str(self._text[self._offsets[number] : self._offsets[number + 1]], "utf-8")
