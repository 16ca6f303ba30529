"""Sources that are lists: an address on a list has the list's meaning; for others the source has no fields.

A missing address is unknown and not false, because no list is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from providers.datasets.downloads import Dataset
from providers.datasets.installed import Datasets
from providers.datasets.lists import Lists, read_files
from providers.datasets.ranges import Range, RangeTable, write
from providers.sources.base import Fields, LocalSource, Query, SourceError, Spec

_FRESH = timedelta(days=2)
Tables = Mapping[str, Iterable[Range]]


def open_tables(files: Mapping[str, Path]) -> dict[str, RangeTable]:
    """Role → open table."""
    return {role: RangeTable(path) for role, path in files.items()}


def source(spec: Spec, meanings: Mapping[str, Callable[[str], Fields]]) -> LocalSource:
    """Make a source that looks an address up in the tables of its dataset.

    Args:
        spec: of the source; with a dataset.
        meanings: role of a table → the fields that a label in it stands for.
    """
    dataset = spec.dataset
    assert dataset is not None

    def find(query: Query, datasets: Datasets) -> Fields:
        tables = datasets.get(dataset, open_tables)
        if tables is None:
            raise SourceError("skipped", "no_data")
        fields: Fields = {}
        for role, meaning in meanings.items():
            label = tables[role].find(query.value.packed)
            if label is not None:
                fields |= meaning(label)
        return fields

    return LocalSource(spec, find)


def dataset(name: str, origin: Lists, tables: Callable[[dict[str, bytes]], Tables]) -> Dataset:
    """Make the dataset of such a source: the origin's files, read by `tables` into ranges by role."""

    def build(download: Path, folder: Path) -> dict[str, Path]:
        paths: dict[str, Path] = {}
        for role, ranges in tables(read_files(download)).items():
            paths[role] = folder / f"{name}.{role}.new"
            write(paths[role], ranges)
        return paths

    return Dataset(name=name, origins=(origin,), build=build, small=True, optional=True, good_enough=_FRESH)
