"""The comparison of two snapshots of a target. Pure.

Only facts that both snapshots contain can change. Therefore both are turned into answers of the same sources:
those that have answered before each of them and have the same edition, as of the same moment. A field has
changed if these two answers differ. What a source reports for the first time is kept apart from changes,
except for findings that are dated after the monitor's creation. A value that is no longer known because its
source was switched off is no change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from models.monitors.fields import Watch
from models.monitors.first_hearing import Dating, divide, first_words, speakers
from models.monitors.forms import ComparisonRule, canonical
from models.monitors.rotations import Rotation, Turn, rotates, turn
from models.monitors.snapshots import Said, Snapshot
from models.monitors.steadiness import hold_still, replace_held, settle_former

Compose = Callable[[Said], Mapping[str, Any]]
"""The words of sources → the answer to the lookup, nested, with all the items of its lists."""

Words = Mapping[str, Any]
"""The words of one source: dotted field → value."""

Change = dict[str, Any]
"""`{old, new}`."""


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        changes: dotted field → `{old, new}`; None if nothing has changed, or there was no snapshot before.
        details: dotted field → `{since: {after, by}, sources}`, and for a list `added`, `removed` and
            `changed: [{old, new}]` besides. For a set that was found to rotate it has the known members as
            `rotating`, and `changes` has nothing. The change happened between the two moments:
            the last time that `sources` answered before, and their answer now. These sources report
            another value of the field; if none does, because it is derived, they are all sources that report
            another value of anything.
        snapshot: the new snapshot, to be stored for the next comparison.
        first_heard: dotted field → `{value, sources}`: a value that no source has reported before. Of a
            list it has the new items. It is no change.
    """

    changes: dict[str, Change] | None
    details: dict[str, dict[str, Any]]
    snapshot: Snapshot
    first_heard: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


def compare(
    before: Snapshot | None,
    after: Snapshot,
    watch: Watch,
    compose: Compose,
    allowed: Watch | None = None,
    dating: Dating | None = None,
) -> Comparison:
    """Find the changes in the fields that a monitor watches.

    Args:
        before: the last snapshot, if there is one.
        after: the new one, made by `carry_over`.
        watch: the fields that the monitor watches.
        compose: makes an answer, always the same for the same input.
        allowed: all fields of the kind with the monitor's tolerances, within which no verdict moves; with
        None
            it moves with every value of the sources.
        dating: decides which first findings of a source are changes; None: none of them.
    """
    if before is None:
        return Comparison(None, {}, after)
    after = replace(after, held=hold_still(before, after, allowed or {}), measured=before.measured)
    words = _comparable(before, after)
    changed = {source: pair for source, pair in words.items() if pair[0] != pair[1]}
    anew = is_measured_anew(before, after)
    told = {} if anew else {path: one for path, one in before.told.items() if path in watch}
    first = first_words(before, after)
    if not changed and not first:
        return Comparison(None, {}, replace(after, told=told))
    old_words = {source: old for source, (old, _) in words.items()}
    old_answer = _answer(old_words, settle_former(old_words, before, after), compose)
    new_words = {source: new for source, (_, new) in words.items()}
    new_answer = _answer(new_words, replace_held(new_words, after.held), compose)
    changes: dict[str, Change] = {}
    details: dict[str, dict[str, Any]] = {}
    rotations = dict(after.rotations)
    for path, form in watch.items():
        old, new = value_at(old_answer, path), value_at(new_answer, path)
        old = told.pop(path, old)
        detail = difference(old, new, form)
        if detail is None:
            if not anew and _has_moved(old, new, form):
                told[path] = old
            continue
        turned: Turn = "changed"
        if rotates(form, new if old is None else old):
            rotations[path], turned = turn(rotations.get(path, Rotation()), old, new, form)
        if turned == "quiet":
            continue
        if turned == "changed":
            changes[path] = {"old": old, "new": new}
        else:
            detail["rotating"] = list(rotations[path].members)
        details[path] = _origin(before, after, _who_differs(changed, path, form), path) | detail
    comparison = Comparison(changes or None, details, replace(after, told=told, rotations=rotations))
    if not first:
        return comparison
    heard = _add_words(new_words, first)
    whole = _answer(heard, replace_held(heard, after.held), compose)
    return _add_first(comparison, first, new_answer, whole, watch, dating)


def _add_words(words: Said, more: Said) -> Said:
    return {**words, **{source: {**words.get(source, {}), **fields} for source, fields in more.items()}}


def _add_first(
    comparison: Comparison,
    first: Said,
    without: Mapping[str, Any],
    whole: Mapping[str, Any],
    watch: Watch,
    dating: Dating | None,
) -> Comparison:
    """Add the words that are heard for the first time: dated findings to the changes, others apart from them.

    Args:
        comparison: the comparison of the words known before.
        first: the first words.
        without: the answer now, without these words.
        whole: the answer with these words.
        watch: the fields that the monitor watches.
        dating: decides which findings are changes.
    """
    changes, details = {**(comparison.changes or {})}, {**comparison.details}
    heard: dict[str, dict[str, Any]] = {}
    for path, form in watch.items():
        old, new = value_at(without, path), value_at(whole, path)
        detail = None if new is None else difference(old, new, form)
        if detail is None:
            continue
        found, sources = divide(path, new, detail, first, dating), speakers(first, path)
        if found.first is not None:
            heard[path] = {"value": found.first, "sources": sources}
        if found.new is not None and dating:
            change = {**changes.get(path, {"old": old})}
            change["new"] = [*(old or []), *found.new] if isinstance(new, list) else new
            by = max(comparison.snapshot.heard[source] for source in sources)
            origin = {"since": {"after": dating.since, "by": by}, "sources": sources}
            changes[path] = change
            details[path] = origin | details.get(path, {}) | (difference(**change, form=form) or {})
    return replace(comparison, changes=changes or None, details=details, first_heard=heard)


def is_measured_anew(before: Snapshot, after: Snapshot) -> bool:
    """Return whether the set of comparable words differs, so that all values are measured anew.

    Words that are not comparable can move a value, too.
    """
    return _words_of(before) != _words_of(after)


def _answer(words: Said, still: Said, compose: Compose) -> Mapping[str, Any]:
    """Compose an answer to these words; its verdict is composed from the words that are held still."""
    answer = compose(words)
    if "verdict" not in answer or still == words:
        return answer
    return {**answer, "verdict": compose(still)["verdict"]}


def _has_moved(old: Any, new: Any, form: ComparisonRule) -> bool:
    """Return whether two values within the tolerance differ at all."""
    return form.exact is not form and difference(old, new, form.exact) is not None


def _origin(before: Snapshot, after: Snapshot, sources: list[str], path: str) -> dict[str, Any]:
    """Return the time range in which a difference arose, and its sources."""
    since = {
        "after": min(before.found_out(source, path) for source in sources),
        "by": max(after.heard[source] for source in sources),
    }
    return {"since": since, "sources": sources}


def _comparable(before: Snapshot, after: Snapshot) -> dict[str, tuple[Words, Words]]:
    """Return each source's words before and after, if of one edition, without fields unknown before."""
    words: dict[str, tuple[Words, Words]] = {}
    for source, old in before.said.items():
        new = after.said.get(source)
        if new is None or before.editions.get(source) != after.editions.get(source):
            continue
        unknown = {path for path, value in old.items() if value is None}
        if unknown:
            old, new = (
                {path: value for path, value in fields.items() if path not in unknown}
                for fields in (old, new)
            )
        words[source] = old, new
    return words


def _words_of(snapshot: Snapshot) -> tuple[Mapping[str, str], set[tuple[str, str]]]:
    """Return the editions of a snapshot's words, and the fields that their sources could never find out."""
    unknown = {
        (source, path)
        for source, fields in snapshot.said.items()
        for path, value in fields.items()
        if value is None
    }
    return snapshot.editions, unknown


def _who_differs(words: Mapping[str, tuple[Words, Words]], path: str, form: ComparisonRule) -> list[str]:
    """Return the sources whose value of a field differs; if none, those that differ in any field."""
    if len(words) == 1:
        return list(words)
    of_this = [
        source
        for source, (old, new) in words.items()
        if difference(old.get(path), new.get(path), form) is not None
    ]
    return of_this or [source for source, (old, new) in words.items() if canonical(old) != canonical(new)]


def value_at(answer: Mapping[str, Any], path: str) -> Any:
    """Return the value of a dotted field; None inside a block that is null."""
    value: Any = answer
    for name in path.split("."):
        if value is None:
            return None
        value = value[name]
    return value


def difference(old: Any, new: Any, form: ComparisonRule) -> dict[str, Any] | None:
    """Return None if values are equal or within tolerance; else the differing items of lists, or `{}`."""
    if old is new or (type(old) is type(new) and old == new):
        return None
    if isinstance(old, list) or isinstance(new, list):
        gone, come = cast("list[Any]", old or []), cast("list[Any]", new or [])
        if form.network is None:
            return _items(gone, come, form)
        # An address of another network has changed the set: all addresses that differ are reported.
        return None if form.get_form(gone) == form.get_form(come) else _items(gone, come, form.exact)
    return None if form.is_near(old, new) else {}


def _items(old: list[Any], new: list[Any], form: ComparisonRule) -> dict[str, Any] | None:
    """Return the items `added`, `removed` and `changed` between two lists; None if there are none."""
    whole: dict[bytes, bytes] = {}  # item as JSON → its comparable form: most items are in both lists

    def get_form(item: Any) -> bytes:
        text = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
        if text not in whole:
            whole[text] = form.whole_item(item)
        return whole[text]

    gone = {get_form(item): item for item in old}
    come = {get_form(item): item for item in new}
    for same in gone.keys() & come.keys():
        del gone[same], come[same]
    changed: list[Change] = []
    for group in form.key:
        known_by: dict[bytes, list[bytes]] = {}
        for one in sorted(gone):
            if gone[one].get(group[0]):
                known_by.setdefault(form.key_of(gone[one], group), []).append(one)
        for one in sorted(come):
            former = known_by.get(form.key_of(come[one], group))
            if former:
                pair = {"old": gone.pop(former.pop(0)), "new": come.pop(one)}
                if not form.is_near_item(pair["old"], pair["new"]):
                    changed.append(pair)
    if not gone and not come and not changed:
        return None
    return {"added": list(come.values()), "removed": list(gone.values()), "changed": changed}
