"""A monitor whose sources come, go and change at random, beside a model of what it is to say."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson

from models.identifiers import new_id
from models.monitors.queue import Chunk, TargetResult
from providers.lookup.composition import Selection, compose
from providers.lookup.offline_answers import lack_of
from providers.lookup.replay import WHOLE
from providers.lookup.result import SourceResult
from providers.registry import KINDS
from providers.sources.base import Source
from providers.sources.kind import Kind
from services.target_comparison import Stored, Watching

SOURCES = {
    "ip": {
        "greynoise": ("threat.classification", "threat.scanner_name"),
        "abuseipdb": ("threat.abuse_score", "threat.usage_type"),
        "virustotal": ("malware.reputation",),
    },
    "domain": {
        "rdapdomain": ("whois.registrar", "whois.created"),
        "virustotaldomain": ("threat.malicious_count",),
        "tls": ("ssl.issuer",),
    },
}
"""Kind → source → the tracked fields that it alone fills."""
_NUMBERS = ("threat.abuse_score", "malware.reputation", "threat.malicious_count")
_EXACT = (*_NUMBERS, "ssl.issuer")
_SILENCES = {
    "failed": (
        SourceResult("timeout"),
        SourceResult("error", detail="cooling_down"),
        SourceResult("auth_failed"),
    ),
    "quota": (SourceResult("rate_limited", retry_after=60.0),),
    "no_key": (SourceResult("skipped", detail="no_key"),),
}


@dataclass
class Simulation:
    """One target of a monitor, run after run.

    Attributes:
        faults: what was wrong, by what: `false` changes, `missed` ones, `charged` without being heard, and
            `first` hearings and `silent` sources that were told otherwise than they were.
    """

    kind: Kind
    chance: random.Random
    faults: Counter[str] = field(default_factory=Counter[str])
    changes: int = 0

    def __post_init__(self) -> None:
        self.start = datetime.now(UTC)
        self.sources = SOURCES[self.kind.name]
        fields = [path for paths in self.sources.values() for path in paths]
        self.world = {path: self._value(path) for path in fields}
        self.known: dict[str, dict[str, Any]] = {}
        self.stored: Stored | None = None
        ids = (new_id(), new_id(), new_id())
        self.query = self.kind.normalise(self.kind.example, "")
        exact = dict.fromkeys(_EXACT, 0.0)
        self.chunk = Chunk(
            *ids, cast(Any, self.kind.name), False, fields, (), exact, timedelta(days=7), self.start, None,
            [(0, self.query.text)], heard_before=list(self.sources),
        )  # fmt: skip
        self.watching = Watching(self.chunk, patient=True)

    def run(self) -> None:
        """Let the world move, ask the sources that can be heard, and compare with the model."""
        for path in self.world:
            if path != "whois.created" and self.chance.random() < 0.2:
                self.world[path] = self._value(path)
        silent: dict[str, str] = {}
        outcomes: list[tuple[Source, SourceResult]] = []
        for source in self.kind.sources:
            outcomes.append((source, self._outcome(source.spec.name, silent)))
        result = compose(self.kind, self.query, outcomes, datetime.now(UTC), Selection(limit=WHOLE))
        lack = lack_of(result)
        if lack is None:
            found = self.watching.judge(0, self.query.text, self.stored, result)
        else:
            found = self.watching.fail(0, self.query.text, self.stored, lack)
        self._compare(found, silent)
        if found.baseline is not None and found.content_hash is not None:
            self.stored = found.content_hash, found.baseline.encode()

    def _outcome(self, name: str, silent: dict[str, str]) -> SourceResult:
        if name not in self.sources:
            return SourceResult("skipped", detail="disabled")
        if self.chance.random() < 0.6:
            return SourceResult("ok", {path: self.world[path] for path in self.sources[name]})
        silent[name] = self.chance.choice(list(_SILENCES))
        return self.chance.choice(_SILENCES[silent[name]])

    def _compare(self, found: TargetResult, silent: dict[str, str]) -> None:
        changes: dict[str, Any] = {}
        first: dict[str, Any] = {}
        heard = [name for name in self.sources if name not in silent]
        for name in heard:
            new, old = {path: self.world[path] for path in self.sources[name]}, self.known.get(name)
            created = new.get("whois.created")
            is_dated = created is not None and created > self.start.date().isoformat()
            for path, value in new.items():
                if old is not None and old[path] != value:
                    changes[path] = {"old": old[path], "new": value}
                elif old is None and self.known and is_dated:
                    changes[path] = {"old": None, "new": value}
                elif old is None and self.known:
                    first[path] = {"value": value, "sources": [name]}
        for name in heard:
            self.known[name] = {path: self.world[path] for path in self.sources[name]}
        told: dict[str, Any] = orjson.loads(found.changes or "{}")
        self.changes += len(changes)
        self.faults["false"] += sum(changes.get(path) != change for path, change in told.items())
        self.faults["missed"] += sum(told.get(path) != change for path, change in changes.items())
        self.faults["first"] += orjson.loads(found.first_heard or "{}") != first
        self.faults["charged"] += found.heard != bool(heard)
        named = {one["source"]: one["why"] for one in orjson.loads(found.silent or "[]")}
        self.faults["silent"] += named != silent

    def _value(self, path: str) -> Any:
        if path == "whois.created":
            days = self.chance.choice((-400, 40))
            return (self.start + timedelta(days=days)).date().isoformat()
        return self.chance.randrange(100) if path in _NUMBERS else f"text {self.chance.randrange(100)}"


def simulate(runs: int, seed: int, runs_of_each: int = 25) -> Simulation:
    """Simulate so many runs, of many targets; return the last with the faults of all."""
    chance, faults, changes = random.Random(seed), Counter[str](), 0
    simulation = Simulation(KINDS["ip"], chance)
    for number in range(runs):
        if number % runs_of_each == 0:
            simulation = Simulation(KINDS[chance.choice(list(SOURCES))], chance, faults, changes)
        simulation.run()
        changes = simulation.changes
    return simulation
