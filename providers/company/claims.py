"""The statements of a Wikidata item: the best values of a property, without those that have ended."""

from __future__ import annotations

from typing import Any

_DAY, _MONTH, _YEAR = 11, 10, 9  # the precision of a time
_START, _END, _MOMENT = "P580", "P582", "P585"


def values(entity: dict[str, Any], name: str) -> list[Any]:
    """Return the values of the property `name`: only the preferred ones if there are any."""
    return [_value(one["mainsnak"]) for one in statements(entity, name)]


def first(entity: dict[str, Any], name: str) -> Any:
    """Return the first value, or None."""
    return next(iter(values(entity, name)), None)


def statements(entity: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the statements behind the values."""
    lasting = [
        one
        for one in entity.get("claims", {}).get(name, [])
        if one["mainsnak"]["snaktype"] == "value"
        and one["rank"] != "deprecated"
        and _END not in one.get("qualifiers", {})
    ]
    return [one for one in lasting if one["rank"] == "preferred"] or lasting


def latest(entity: dict[str, Any], name: str) -> Any:
    """Return the value with the latest point in time, or None."""
    known = statements(entity, name)
    return _value(max(known, key=_moment)["mainsnak"]) if known else None


def item(value: Any) -> str | None:
    """Return the id of the item that a value refers to."""
    return value["id"] if value else None


def items(entity: dict[str, Any], name: str) -> list[str]:
    """Return the ids of the items that the values of a property refer to."""
    return [value["id"] for value in values(entity, name)]


def date(value: dict[str, Any] | None) -> str | None:
    """Return a point in time as a date, a month or a year, with its known precision."""
    if value is None or value["precision"] < _YEAR or not value["time"].startswith("+"):
        return None
    year, *finer = value["time"][1:].partition("T")[0].split("-")
    known = finer[: {_DAY: 2, _MONTH: 1}.get(value["precision"], 0)]
    return "-".join((f"{int(year):04}", *known))  # the year's four digits may have zeros before them


def start(statement: dict[str, Any]) -> str | None:
    """Return the start date of a statement."""
    return date(qualifier(statement, _START))


def qualifier(statement: dict[str, Any], name: str) -> Any:
    """Return the first value of a statement's qualifier, or None."""
    given = (one for one in statement.get("qualifiers", {}).get(name, []) if one["snaktype"] == "value")
    return next((_value(one) for one in given), None)


def _moment(statement: dict[str, Any]) -> str:
    return date(qualifier(statement, _MOMENT)) or ""


def _value(snak: dict[str, Any]) -> Any:
    return snak["datavalue"]["value"]
