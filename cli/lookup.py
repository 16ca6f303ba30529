"""`vedette lookup`: the combined knowledge of all sources about a target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import typer

from cli.client import connect_service
from cli.errors import BadInput
from cli.printing import Json, print_table, printable

Kind = Literal[
    "ip", "breach", "breaches", "email", "validate", "phone", "domain", "username", "websearch", "company",
    "darkweb",
]  # fmt: skip
# Kind → the end of the route's path, the field of the body with the target, and further fields of the body.
_ROUTES: dict[str, tuple[str, str, frozenset[str]]] = {
    "ip": ("ip", "ip", frozenset()),
    "breach": ("breaches", "email", frozenset()),
    "breaches": ("breaches", "email", frozenset()),
    "email": ("lookup", "email", frozenset()),
    "validate": ("validate", "email", frozenset()),
    "phone": ("phone", "phone", frozenset({"country"})),
    "domain": ("domain", "domain", frozenset()),
    "username": ("username", "username", frozenset()),
    "websearch": ("websearch", "query", frozenset({"limit"})),
    "company": ("company", "company", frozenset({"limit"})),
    "darkweb": ("darkweb", "query", frozenset({"offset"})),
}
_SHOWN = {
    **{field: "TARGET" for _, field, _ in _ROUTES.values()}, "country": "--country", "limit": "--limit",
    "offset": "--offset", "fields": "--fields",
}  # fmt: skip
_ABOUT = frozenset({"credits", "cached", "partial", "providers", "sources", "conflicts"})
_FAILED = frozenset({"rejected", "timeout", "rate_limited", "auth_failed", "bad_response", "error"})
_INDEX = re.compile(r"\[\d+\]")


def lookup(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="ip, breach (or breaches), email, validate, phone, domain, "
            "username, websearch, company or darkweb.",
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET")],
    fields: Annotated[
        str | None, typer.Option(help="Only these, separated by commas: fields (location.city) or blocks.")
    ] = None,
    country: Annotated[
        str | None, typer.Option(help="phone: the country of a number without its country code, such as DE.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="company, websearch: the most people or results.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="darkweb: how many to skip; a page has 20.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask every source, without cached answers.")] = False,
    as_json: Json = False,
) -> None:
    """Look up a target, and show the known fields with their sources."""
    path, name, takes = _ROUTES[kind]
    body: dict[str, Any] = {name: target}
    for option, value in {"country": country, "limit": limit, "offset": offset}.items():
        if value is not None and option not in takes:
            raise BadInput(f"--{option}: A lookup of kind {kind} has no such option.")
        body |= {} if value is None else {option: value}
    with connect_service(_SHOWN) as service:
        query = {"fields": fields, "nocache": "1" if fresh else None}
        answer = service.post(f"/api/agent/{path}", body, **query)
    if as_json:
        print(json.dumps(answer, indent=2))
    else:
        _print_answer(answer)


def _print_answer(answer: Mapping[str, Any]) -> None:
    sources: Mapping[str, list[str]] = answer["sources"]
    known = {name: value for name, value in answer.items() if name not in _ABOUT}
    rows = [
        [name, printable(value), printable(", ".join(_said_by(name, sources)))]
        for name, value in _leaves(known, "")
    ]
    print_table(["field", "value", "source"], rows)
    for field, values in answer["conflicts"].items():
        told = ", ".join(f"{printable(value)} ({source})" for source, value in values.items())
        print(f"Sources differ on {printable(field)}: {told}")
    for report in answer["providers"]:
        if report["status"] in _FAILED:
            detail = f": {report['detail']}" if report.get("detail") else ""
            print(printable(f"No answer of {report['name']} ({report['status']}{detail})"))
    kept = ", kept from before" if answer["cached"] else ""
    part = ", not of all sources" if answer["partial"] else ""
    print(f"{answer['credits']:,} credits{kept}{part}.")


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the known values by dotted name; lists of plain values as one text."""
    if isinstance(value, dict):
        found: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        for key, one in found.items():
            yield from _leaves(one, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        if any(isinstance(one, (dict, list)) for one in items):
            for position, one in enumerate(items):
                yield from _leaves(one, f"{name}[{position}]")
        elif items:
            yield name, ", ".join(one if isinstance(one, str) else json.dumps(one) for one in items)
    elif value is not None:
        yield name, value


def _said_by(name: str, sources: Mapping[str, list[str]]) -> list[str]:
    """Return the sources of a field, which are recorded for it or for an enclosing block."""
    name = _INDEX.sub("", name)
    while name and name not in sources:
        name = name.rpartition(".")[0]
    return sources.get(name, [])
