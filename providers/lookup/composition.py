"""The merging of all sources' answers into one result.

A source that did not answer leaves its fields unknown: an empty or false value is only reported when every
source that could contradict it has answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from providers.lookup.coverage import credits_for, leaves_open
from providers.lookup.result import ANSWERS, LookupResult, SourceResult, SourceResults, all_kept
from providers.sources.aggregate import Merged, merge, nest
from providers.sources.base import Fields, Query, Source
from providers.sources.kind import Kind
from providers.sources.verdicts import COMPUTED, judge


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of an answer that is delivered and charged.

    Attributes:
        fields: the only dotted fields; None for all.
        offset: how many results to skip, for a kind that has pages.
        limit: the most results to deliver; None for the kind's default.
    """

    fields: Collection[str] | None = None
    offset: int = 0
    limit: int | None = None


WHOLE_ANSWER = Selection()
"""All fields, and the first results."""


def compose(
    kind: Kind,
    query: Query,
    outcomes: SourceResults,
    moment: datetime,
    selection: Selection = WHOLE_ANSWER,
) -> LookupResult:
    """Merge the outcomes of all sources into the answer to `query`.

    Args:
        kind: the kind of the lookup.
        query: normalised.
        outcomes: the outcome of every source.
        moment: the time of the answer.
        selection: the part of the answer to deliver and charge.
    """
    said = {source.spec.name: _sure(outcome) for source, outcome in outcomes if outcome.fields}
    told, of_others = kind.apart(said)
    silent = [source for source, outcome in outcomes if outcome.silent]
    merged = merge(told.items(), kind.rules, kind.together)
    _contradict(merged, told, of_others)
    _credit(merged, outcomes)
    _doubt(merged, kind, silent)
    _show_doubts(merged, outcomes)
    _add_what_follows(merged, kind, told, moment)
    _say_none(merged, kind, outcomes)
    _name_asked(merged, kind, outcomes)
    if kind.message is not None:
        merged.fields["message"] = kind.message(merged.fields, [source.spec.name for source in silent])
    if kind.count is not None:
        answered = [outcome.fields for _, outcome in outcomes if outcome.status in ANSWERS]
        merged.fields[kind.count] = sum(own.get(kind.count, 1) for own in answered)
        merged.sources.pop(kind.count, None)  # all sources contribute to the count
    merged.fields[kind.echo] = query.words
    delivered = kind.cut(merged.fields, selection.offset, selection.limit)
    if delivered is not merged.fields:
        for path in merged.fields.keys() - delivered.keys():
            merged.sources.pop(path, None)
            merged.conflicts.pop(path, None)
    failed = {path for _, outcome in outcomes for path in outcome.doubts}
    data = nest({**dict.fromkeys(failed), **delivered}, kind.answer)
    for name in kind.absent - delivered.keys():
        del data[name]
    if kind.signs:
        signs = () if kind.judged_fields.isdisjoint(delivered) else kind.signs
        unheard = _unheard(outcomes)
        data["verdict"] = judge(signs, delivered, merged.sources, told, moment, unheard=unheard)
    for path in kind.scored:
        if delivered.get(path.rpartition(".")[0]):
            merged.sources[path] = [COMPUTED]
    return LookupResult(
        kind=kind.name,
        query=query.text,
        echo=kind.echo,
        data=data,
        credits=credits_for(kind, outcomes, delivered, selection.fields),
        cached=all_kept(outcomes),
        partial=bool(silent) or any(outcome.failures for _, outcome in outcomes),
        outcomes=outcomes,
        sources=merged.sources,
        conflicts=merged.conflicts,
        block=selection.offset // kind.block if kind.block else 0,
    )


def _add_what_follows(merged: Merged, kind: Kind, told: Mapping[str, Fields], moment: datetime) -> None:
    """Add the fields that follow from comparing the sources, then those derived from all known fields.

    A value of a source overrides a derived one. A derived count may still exceed it, because the sources
    together may name more than each has counted.
    """
    for path, value in kind.compare(told).items():
        if path not in merged.fields:
            merged.fields[path] = value
            merged.sources[path] = [COMPUTED]
    for path, (value, origin) in kind.derive(merged.fields, moment).items():
        if value is None:
            continue
        if path not in merged.fields or (kind.rules.get(path) == "max" and value > merged.fields[path]):
            merged.fields[path] = value
            if origin in merged.sources:
                merged.sources[path] = merged.sources[origin]


def _unheard(outcomes: SourceResults) -> set[str]:
    """Return the fields of which a source may know more, or something else, than it reported now."""
    return {
        path for source, outcome in outcomes for path in (source.fields if outcome.silent else outcome.unsure)
    }


def _sure(outcome: SourceResult) -> Fields:
    """Return the fields of a source. A stale answer does not count as proof of absence."""
    if not outcome.stale:
        return outcome.fields
    return {path: value for path, value in outcome.fields.items() if value}


def _contradict(merged: Merged, told: Mapping[str, Fields], of_others: Mapping[str, Fields]) -> None:
    """Record the values that sources report about another subject, where they differ from the answer."""
    for source, fields in of_others.items():
        for path, value in fields.items():
            if path in merged.fields and merged.fields[path] != value:
                given = {name: told[name][path] for name in merged.sources[path]}
                merged.conflicts[path] = merged.conflicts.get(path, given) | {source: value}


def _name_asked(merged: Merged, kind: Kind, outcomes: SourceResults) -> None:
    """List the sources that were asked, whether they answered or not."""
    asked = {source.spec.name for source, one in outcomes if one.silent or one.status != "skipped"}
    for path, names in kind.asked.items():
        merged.fields[path] = [names[name] for name in names if name in asked]


def _credit(merged: Merged, outcomes: SourceResults) -> None:
    """Name the owner of the data instead of a source that only passes it on."""
    for source, _ in outcomes:
        if not source.spec.credited:
            continue
        for path in source.spec.credited.keys() & merged.sources.keys():
            owner = source.spec.credited[path]
            merged.sources[path] = [
                owner if name == source.spec.name else name for name in merged.sources[path]
            ]


def _doubt(merged: Merged, kind: Kind, silent: Sequence[Source]) -> None:
    """Remove each `False`, and each zero of a greatest-of count, that a silent source could change."""
    if not silent:
        return
    for path, value in list(merged.fields.items()):
        liftable = value is False or (value == 0 and kind.rules.get(path) == "max")
        if liftable and any(path in source.fields for source in silent):
            del merged.fields[path], merged.sources[path]
            merged.conflicts.pop(path, None)


def _show_doubts(merged: Merged, outcomes: SourceResults) -> None:
    """Report the contradictions among the services that a source asked."""
    for _, outcome in outcomes:
        for path, doubt in outcome.doubts.items():
            if doubt.said:
                merged.conflicts[path] = {**merged.conflicts.get(path, {}), **dict(doubt.said)}


def _say_none(merged: Merged, kind: Kind, outcomes: SourceResults) -> None:
    """Report absence for each field that no source filled although every source that could has answered.

    A field that counts is 0 as soon as any source that could fill it has answered.
    """
    for path, (value, origin) in kind.none.items():
        if path in merged.fields:
            continue
        could = [(source, outcome) for source, outcome in outcomes if origin in source.fields]
        told = [source.spec for source, outcome in could if outcome.status in ANSWERS]
        complete = path in kind.counted or not any(leaves_open(outcome, origin) for _, outcome in could)
        if complete and any(spec.proves_absence for spec in told):
            merged.fields[path] = value
            merged.sources[path] = [spec.name for spec in told]
