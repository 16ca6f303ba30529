"""All kinds of lookups with their sources, and all the data that sources read from this machine."""

from __future__ import annotations

from functools import cache

from providers.aggregate import paths
from providers.base import Kind
from providers.breach.kind import KIND as BREACH
from providers.company.kind import KIND as COMPANY
from providers.darkweb.kind import KIND as DARKWEB
from providers.domain.kind import KIND as DOMAIN
from providers.downloads import Dataset
from providers.email.kind import KIND as EMAIL
from providers.ip import applerelay, cloud, data, spamhaus, tor, x4bnet
from providers.ip.kind import KIND as IP
from providers.phone.kind import KIND as PHONE
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
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _DATASETS}
"""Name → dataset."""


@cache
def lookup_fields() -> dict[str, set[str]]:
    """What lookup steps may name in `fields`: for each kind the fields of its answer, and their blocks."""
    return {
        kind.name: {
            ".".join(path.split(".")[:length])
            for path in paths(kind.answer) - {kind.echo}
            for length in range(1, path.count(".") + 2)
        }
        for kind in KINDS.values()
    }
