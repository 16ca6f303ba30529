"""The state of the lookup data that this machine needs, and the fields that depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from providers.datasets import installed
from providers.datasets.downloads import Dataset
from providers.lookup.source_status import switched_off
from providers.registry import DATASETS, KINDS
from providers.sources.base import Source
from settings import Settings

State = Literal["installed", "not_refreshed", "missing"]


@dataclass(frozen=True)
class DatasetStatus:
    """The state of one dataset.

    Attributes:
        name: of the dataset.
        state: `not_refreshed`: an older version is in use, because the last fetch failed or its data was
            unusable; `missing`: no version is in use.
        fields: the fields that its sources fill; without it they may stay empty.
        optional: whether lookups work without it.
        known: the version that is in use.
        failure: why the last fetch failed, if it did.
    """

    name: str
    state: State
    fields: tuple[str, ...]
    optional: bool
    known: installed.Installed | None
    failure: str | None


def take_stock(settings: Settings) -> list[DatasetStatus]:
    """Return the state of each dataset that this machine needs."""
    known = installed.read_manifest(settings.data).datasets
    failures = installed.read_failures(settings.data)
    return [
        _stock(dataset, settings, known.get(dataset.name), failures.get(dataset.name))
        for dataset in DATASETS.values()
        if is_wanted(dataset, settings)
    ]


def _stock(
    dataset: Dataset, settings: Settings, known: installed.Installed | None, failure: str | None
) -> DatasetStatus:
    usable = known if known and installed.is_whole(settings.data, known) else None
    state: State = "missing" if usable is None else "not_refreshed" if failure else "installed"
    return DatasetStatus(dataset.name, state, fields_of(dataset.name), dataset.optional, usable, failure)


def is_wanted(dataset: Dataset, settings: Settings) -> bool:
    """Return whether a source of the dataset is enabled. A dataset without a source of its own serves all."""
    sources = _sources(dataset.name)
    return not sources or any(switched_off(source, settings) is None for source in sources)


def fields_of(dataset: str) -> tuple[str, ...]:
    """Return the fields that the dataset's sources fill, sorted by name."""
    return tuple(sorted({field for source in _sources(dataset) for field in source.spec.fields}))


@cache
def _sources(dataset: str) -> tuple[Source, ...]:
    return tuple(
        source
        for kind in KINDS.values()
        for source in kind.sources
        if source.spec.dataset == dataset and source.spec.kind == kind.name
    )
