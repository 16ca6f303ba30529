"""The titles of breaches: Have I Been Pwned's public catalogue, a dataset on this machine.

Sources name one breach in different ways: by title, by a short name, by the domain that was breached. The
catalogue has all three. Without it, names stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter

from models.names import bare_name
from providers.datasets.downloads import Dataset
from providers.datasets.lists import Lists, read_files
from providers.sources.base import Context, Fields, Query, RemoteSource

_FEWEST = 300
_Source = TypeVar("_Source", bound=RemoteSource)


class _Breach(BaseModel):
    """The used fields of an entry; see https://haveibeenpwned.com/API/v3#BreachModel.

    `Domain` may be empty.
    """

    Name: str
    Title: str
    Domain: str


@dataclass(frozen=True)
class Catalogue:
    """The known breaches. `titles`: name, title or domain, without case and punctuation → title."""

    titles: Mapping[str, str]

    def title(self, name: str) -> str:
        """Return the title of the breach that is called `name`, or `name` if it is unknown."""
        return self.titles.get(bare_name(name), name)


def build(download: Path, folder: Path) -> dict[str, Path]:
    """Build the catalogue of breach names.

    Raises:
        ValueError: if it is not that catalogue, or nearly empty.
    """
    breaches = TypeAdapter(list[_Breach]).validate_json(read_files(download)["breaches"])
    if len(breaches) < _FEWEST:
        raise ValueError(f"only {len(breaches)} breaches")
    path = folder / f"{DATASET.name}.titles.new"
    path.write_bytes(orjson.dumps(_titles(breaches)))
    return {"titles": path}


def _titles(breaches: Iterable[_Breach]) -> dict[str, str]:
    titles: dict[str, str] = {}
    domains: dict[str, list[_Breach]] = {}
    for breach in breaches:
        titles[bare_name(breach.Title)] = breach.Title
        domains.setdefault(breach.Domain, []).append(breach)
    for domain, there in domains.items():
        for breach in there:
            titles.setdefault(bare_name(breach.Name), breach.Title)
        # If a domain was breached more than once, it maps to the breach of the same name, or to none.
        named = [one for one in there if bare_name(one.Name) == bare_name(domain.partition(".")[0])]
        own = there if len(there) == 1 else named
        if domain and len(own) == 1:
            titles.setdefault(bare_name(domain), own[0].Title)
    return titles


def open_catalogue(files: Mapping[str, Path]) -> Catalogue:
    """Read the installed catalogue."""
    return Catalogue(orjson.loads(files["titles"].read_bytes()))


def add_titles(source: _Source, field: str = "services") -> _Source:
    """Return the source with the breaches in `field` replaced by their titles."""

    @wraps(source.fetch)
    async def fetch(query: Query, context: Context) -> Any:
        known = context.datasets.get(DATASET.name, open_catalogue) if context.datasets else None
        return await source.fetch(query, context), known or Catalogue({})

    def parse(raw: tuple[Any, Catalogue]) -> Fields:
        told, known = raw
        fields = source.parse(told)
        names: list[str] = fields.get(field) or []
        return fields | {field: list(dict.fromkeys(map(known.title, names)))} if names else fields

    return replace(source, fetch=fetch, parse=parse)


DATASET = Dataset(
    name="breaches",
    origins=(
        Lists(
            "Have I Been Pwned",
            "breachcatalogue",  # the setting of `hibp` names another path
            {"breaches": "https://haveibeenpwned.com/api/v3/breaches"},
            "CC BY 4.0",
        ),
    ),
    build=build,
    small=True,
    optional=True,
    good_enough=timedelta(days=7),
)
