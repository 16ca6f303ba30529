"""All kinds of lookups with their sources, and all the data that sources read from this machine."""

from __future__ import annotations

from functools import cache

from models.lookups.answer_shapes import Shape, shape_of
from providers.breach import catalogue
from providers.breach.kind import KIND as BREACH
from providers.company.kind import KIND as COMPANY
from providers.darkweb import ransomwarelive
from providers.darkweb.kind import KIND as DARKWEB
from providers.datasets.downloads import Dataset, Publisher
from providers.datasets.lists import Lists
from providers.domain.kind import KIND as DOMAIN
from providers.email.kind import KIND as EMAIL
from providers.ip import applerelay, cloud, data, spamhaus, tor, x4bnet
from providers.ip.kind import KIND as IP
from providers.phone.kind import KIND as PHONE
from providers.sources.aggregate import paths
from providers.sources.base import RemoteSpec
from providers.sources.kind import Kind
from providers.username import sites
from providers.username.kind import KIND as USERNAME
from providers.validate.kind import KIND as VALIDATE
from providers.websearch.kind import KIND as WEBSEARCH

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (IP, BREACH, EMAIL, VALIDATE, PHONE, DOMAIN, USERNAME, WEBSEARCH, COMPANY, DARKWEB)
}
"""Name → kind."""

_DATASETS = (
    data.CITIES,
    data.NETWORKS,
    tor.DATASET,
    x4bnet.DATASET,
    applerelay.DATASET,
    cloud.DATASET,
    spamhaus.DATASET,
    sites.DATASET,
    catalogue.DATASET,
    ransomwarelive.DATASET,
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _DATASETS}
"""Name → dataset."""


@cache
def names_in_settings() -> frozenset[str]:
    """Return the names that may replace NAME in `VEDETTE_PROVIDER_<NAME>_KEY` and similar settings."""
    specs = [source.spec for kind in KINDS.values() for source in kind.sources]
    shared = [spec.account for spec in specs if isinstance(spec, RemoteSpec) and spec.account]
    origins = [origin for dataset in DATASETS.values() for origin in dataset.origins]
    publishers = [origin.source for origin in origins if isinstance(origin, (Publisher, Lists))]
    return frozenset([*(spec.name for spec in specs), *shared, *publishers])


def accounts() -> dict[str, str]:
    """Return source → the other source whose account and rate windows it uses."""
    specs = [source.spec for kind in KINDS.values() for source in kind.sources]
    return {
        spec.name: spec.account
        for spec in specs
        if isinstance(spec, RemoteSpec) and spec.account not in (None, spec.name)
    }


@cache
def lookup_fields() -> dict[str, set[str]]:
    """Return the names allowed in `fields`: for each kind the fields of its answer, and their blocks."""
    return {
        kind.name: {
            ".".join(path.split(".")[:length])
            for path in paths(kind.answer) - {kind.echo}
            for length in range(1, path.count(".") + 2)
        }
        | ({"verdict"} if kind.signs else set[str]())
        for kind in KINDS.values()
    }


@cache
def answer_shapes() -> dict[str, Shape]:
    """Return the shape of each kind's answers, as known before there are any."""
    return {kind.name: shape_of(kind.answer) for kind in KINDS.values()}
