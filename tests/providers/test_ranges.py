"""Ranges of addresses in a file: every address finds the label of the narrowest range that holds it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from providers.datasets.ranges import Range, RangeFileError, RangeTable, disjoint, write


def packed(number: int, version: int) -> bytes:
    return (IPv4Address(number) if version == 4 else IPv6Address(number)).packed


def row(version: int, start: int, end: int, label: str) -> Range:
    return Range(packed(start, version), packed(end, version), label)


def narrowest(rows: list[tuple[int, int, int]], address: int) -> int | None:
    """The oracle: look at every range."""
    holding = [(end - start, index) for index, (start, end, _) in enumerate(rows) if start <= address <= end]
    return rows[min(holding)[1]][2] if holding else None


SMALL = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)
ROWS = st.lists(st.tuples(SMALL, st.integers(0, 5)).map(lambda r: (r[0][0], r[0][1], r[1])), max_size=12)


@given(ROWS)
@settings(max_examples=500)
def test_overlapping_ranges_give_every_address_its_narrowest(rows: list[tuple[int, int, int]]) -> None:
    flat = disjoint(rows)
    assert all(before[1] < after[0] for before, after in pairwise(flat))
    for address in range(32):
        found = [label for start, end, label in flat if start <= address <= end]
        assert found == [label for label in [narrowest(rows, address)] if label is not None]


@given(ROWS, ROWS, st.sampled_from([0, 2**32 - 40]), st.sampled_from([0, 2**64 - 16, 2**128 - 40]))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_finds_what_looking_at_every_range_finds(
    tmp_path: Path, v4: list[tuple[int, int, int]], v6: list[tuple[int, int, int]], offset4: int, offset6: int
) -> None:
    path = tmp_path / "table"
    versions = ((4, v4, offset4), (6, v6, offset6))
    write(
        path,
        [
            row(version, start + offset, end + offset, f"label {label}")
            for version, rows, offset in versions
            for start, end, label in rows
        ],
    )
    table = RangeTable(path)
    for version, rows, offset in versions:
        for address in range(32):
            label = narrowest(rows, address)
            assert table.find(packed(address + offset, version)) == (
                None if label is None else f"label {label}"
            )


def test_labels_are_kept_as_they_are(tmp_path: Path) -> None:
    labels = ["15169 Google LLC", '1 Größe, "quoted"', "2 日本", "3 "]
    write(tmp_path / "table", [row(4, n * 10, n * 10 + 5, label) for n, label in enumerate(labels)])
    table = RangeTable(tmp_path / "table")
    assert [table.find(packed(n * 10 + 5, 4)) for n in range(4)] == labels
    assert len(table) == 4


def test_the_ends_of_the_address_space_are_addresses_too(tmp_path: Path) -> None:
    write(tmp_path / "table", [row(4, 0, 2**32 - 1, "all"), row(6, 0, 2**128 - 1, "all6")])
    table = RangeTable(tmp_path / "table")
    for version, most, label in ((4, 2**32 - 1, "all"), (6, 2**128 - 1, "all6")):
        assert table.find(packed(0, version)) == table.find(packed(most, version)) == label


def test_a_table_without_ranges_finds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "table", [])
    table = RangeTable(tmp_path / "table")
    assert (len(table), table.find(packed(1, 4)), table.find(packed(1, 6))) == (0, None, None)


@pytest.mark.parametrize("keep", [0, 3, 19, 20, 40, -1])
def test_a_file_that_is_cut_short_is_refused(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write(path, [row(4, 1, 2, "one"), row(6, 1, 2, "two")])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RangeFileError):
        RangeTable(path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"start,end,label\n" * 10)
    with pytest.raises(RangeFileError):
        RangeTable(path)
