"""`vedette stats` and `vedette activity`: what happens in the account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from cli.client import connect_service
from cli.printing import Json, duration, moment, print_rows, print_table, printable

By = Literal["none", "workflow", "error_code", "source", "endpoint", "monitor"]
_SHOWN = {"window": "--window", "bucket": "--bucket", "limit": "--limit"}
_PAGE = 100


def stats(
    window: Annotated[str, typer.Option(metavar="TIME", help="The time up to now, from 1h to 30d.")] = "24h",
    by: Annotated[By, typer.Option(help="What to list by itself.")] = "workflow",
    as_json: Json = False,
) -> None:
    """Show runs, lookups, deliveries, credits and changes of a time up to now."""
    with connect_service(_SHOWN) as service:
        found = service.get("/api/stats", window=window, by=by)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    totals = found["totals"]
    print_rows(
        [
            ["runs", _counts(totals["runs"])],
            ["took", _took(totals["run_ms"])],
            ["lookups", _counts(totals["lookups"])],
            ["deliveries", _counts(totals["deliveries"])],
            ["credits", f"{totals['credits']:,}"],
            ["changes", f"{totals['changes']:,}"],
        ]
    )
    if by != "none":
        noun = by.replace("_", " ")
        rows = [
            [printable(one["name"] or one["key"]), f"{one['total']:,}", _counts(one["outcomes"]),
             _took(one["run_ms"])]
            for one in found["groups"]
        ]  # fmt: skip
        head = [noun, "total", "outcomes", "took"]
        print_table(head, rows, f"There are no figures by {noun}.")


def activity(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The most to list.")] = 20,
    as_json: Json = False,
) -> None:
    """List what happened lately: failures, changes, approvals, ended jobs, changed workflows."""
    entries: list[dict[str, Any]] = []
    cursor: str | None = None
    with connect_service(_SHOWN) as service:
        while len(entries) < limit:
            size = min(limit - len(entries), _PAGE)
            page = service.get("/api/activity", limit=size, cursor=cursor)
            entries += page["entries"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    if as_json:
        print(json.dumps({"entries": entries}, indent=2))
        return
    rows = [
        [moment(one["at"]), one["kind"], printable(one["title"]), printable(one["outcome"]), one["id"]]
        for one in entries
    ]
    print_table(["at", "what", "name", "outcome", "id"], rows, "Nothing has happened.")


def _counts(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {printable(name)}" for name, count in outcomes.items() if count) or "–"


def _took(run_ms: Mapping[str, int] | None) -> str:
    return "–" if run_ms is None else f"p50 {duration(run_ms['p50'])}, p95 {duration(run_ms['p95'])}"
