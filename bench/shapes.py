"""The measured workflows, from the shortest to one with a bit of everything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from bench.lookups import addresses

_ITEMS = 5
_BODIES = 256


@dataclass(frozen=True)
class Shape:
    """A workflow and the events that start it.

    Attributes:
        steps: the steps, given the URL that its webhooks call.
        event: the event, given a number.
        output: the output of the run of that event.
    """

    steps: Callable[[str], list[dict[str, Any]]]
    event: Callable[[int], dict[str, Any]]
    output: Callable[[int], Any]

    def bodies(self) -> Iterator[bytes]:
        """Yield distinct events in the sent form, for ever."""
        return cycle([json.dumps(self.event(number)).encode() for number in range(_BODIES)])

    def definition(self, name: str, url: str) -> dict[str, Any]:
        """Return the document that creates the workflow."""
        return {"name": name, "trigger": {"type": "webhook"}, "steps": self.steps(url)}


def transform(step_id: str, mapping: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "transform", "config": {"mapping": mapping}, **more}


def condition(step_id: str, expression: str, **more: Any) -> dict[str, Any]:
    config = {"expression": expression} | {name: more.pop(name) for name in ("then", "else") if name in more}
    return {"id": step_id, "type": "condition", "config": config, **more}


def webhook(step_id: str, url: str, body: Any, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "webhook", "config": {"url": url, "body": body}, **more}


def ip_lookup(step_id: str, field: str, **more: Any) -> dict[str, Any]:
    return {"id": step_id, "type": "ip_lookup", "config": {"field": field}, **more}


def _pure(_url: str) -> list[dict[str, Any]]:
    return [
        condition("wanted", "trigger.amount > 10"),
        transform("price", {"net": "trigger.amount", "twice": "[trigger.amount, trigger.amount]"}),
        transform("shape", {"id": "trigger.id", "sum": "sum(price.twice)"}),
    ]


def _w1(url: str) -> list[dict[str, Any]]:
    return [
        condition("wanted", "trigger.amount > 10"),
        webhook("call", url, {"id": "{{ trigger.id }}", "amount": "{{ trigger.amount }}"}),
        transform("shape", {"id": "trigger.id", "ok": "call.body.ok", "status": "call.status"}),
    ]


def _lookups(_url: str) -> list[dict[str, Any]]:
    names = [f"ip{n}" for n in range(_ITEMS)]
    steps = [ip_lookup(name, f"trigger.ips[{n}]", needs=[]) for n, name in enumerate(names)]
    return [*steps, transform("shape", {name: f"{name}.ip_address" for name in names}, needs=names)]


def _mixed(url: str) -> list[dict[str, Any]]:
    return [
        ip_lookup("buyer", "trigger.ips[0]"),
        ip_lookup("seller", "trigger.ips[1]", needs=[]),
        condition(
            "large",
            "trigger.amount > 10",
            **{"then": ["order"], "else": ["sample"]},
            needs=["buyer", "seller"],
        ),
        transform(
            "order", {"from": "buyer.ip_address", "to": "seller.ip_address", "amount": "trigger.amount"}
        ),
        transform("sample", {"amount": "trigger.amount"}),
        webhook("announce", url, {"one": "{{ order }}", "other": "{{ sample }}"}, needs=["order", "sample"]),
        webhook("each", url, {"line": "{{ item }}"}, for_each="trigger.lines"),
        condition("all_there", "length(each) == 5", then=["confirm"]),
        webhook("confirm", url, {"id": "{{ trigger.id }}"}),
        transform("shape", {"id": "trigger.id", "lines": "length(each)", "status": "confirm.status"}),
    ]


_ADDRESSES = addresses(_BODIES + _ITEMS)


def _small(number: int) -> dict[str, Any]:
    return {"id": number, "amount": 42}


def _large(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "amount": 42 if number % 2 else 7,
        "ips": _ADDRESSES[number : number + _ITEMS],
        "lines": [{"sku": f"A-{number}-{n}", "count": n + 1} for n in range(_ITEMS)],
    }


SHAPES = {
    "pure": Shape(_pure, _small, lambda number: {"id": number, "sum": 84}),
    "w1": Shape(_w1, _small, lambda number: {"id": number, "ok": True, "status": 200}),
    "lookups": Shape(
        _lookups,
        lambda number: {"ips": _large(number)["ips"]},
        lambda number: {f"ip{n}": ip for n, ip in enumerate(_large(number)["ips"])},
    ),
    "mixed": Shape(_mixed, _large, lambda number: {"id": number, "lines": _ITEMS, "status": 200}),
}
