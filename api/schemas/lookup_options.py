"""The choices in a lookup's query string: its fields, no cached answers, the listed sources."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request

from api.deps import Services
from models.errors import FieldError, Invalid
from providers.lookup.billing import Payer
from providers.lookup.composition import Selection
from providers.lookup.questions import LookupOptions
from providers.lookup.result import Shown


@dataclass(frozen=True)
class Options:
    """The options in a lookup's query string.

    Attributes:
        fields: the only fields and blocks of the answer; None for all.
        max_age: 0 if no cached answers may be used.
        shown: the sources that the answer lists.
        offset: how many results to skip; not in the query string.
        limit: the most results to deliver; not in the query string.
    """

    fields: frozenset[str] | None = None
    max_age: float | None = None
    shown: Shown = "asked"
    offset: int = 0
    limit: int | None = None

    async def look_up(
        self,
        services: Services,
        kind: str,
        query: str,
        *,
        pointer: str | None = None,
        payer: Payer | None = None,
    ) -> dict[str, Any]:
        """Return the answer to `query`; `pointer` and `payer` are those of `Lookups.lookup`."""
        options = LookupOptions(Selection(self.fields, self.offset, self.limit), self.max_age)
        found = await services.lookups.lookup(kind, query, options, pointer=pointer, payer=payer)
        return found.answer(shown=self.shown, fields=self.fields)


def options_among(names: Collection[str]) -> Any:
    """Return a dependency that reads the query string of a lookup whose answer has these fields."""
    known = sorted(names)

    async def read_options(
        request: Request,
        fields: Annotated[
            str | None,
            Query(description=f"Parted by commas: the only fields that the answer has. {_FIELDS_OF}"),
        ] = None,
        nocache: Annotated[bool, Query(description="Ask every source anew.")] = False,
        providers: Annotated[
            Literal["asked", "all"], Query(description="`all`: list the sources that were skipped, too.")
        ] = "asked",
    ) -> Options:
        given = None if fields is None else ",".join(request.query_params.getlist("fields"))
        return Options(_choose_fields(given, known), 0 if nocache else None, providers)

    return Depends(read_options)


_FIELDS_OF = "They are dotted paths and blocks of the answer, such as `breach` or `breach.count`."


def _choose_fields(fields: str | None, known: list[str]) -> frozenset[str] | None:
    """Return the fields and blocks that the query parameter `fields` names; None for all.

    Raises:
        Invalid: if the answer has no field of one of the names.
    """
    if fields is None:
        return None
    names = frozenset(name.strip() for name in fields.split(",") if name.strip())
    if not names <= frozenset(known) or not names:
        message = f"There is no such field; fields are: {', '.join(known)}."
        raise Invalid([FieldError("", "unknown_field", message, parameter="fields")])
    return names
