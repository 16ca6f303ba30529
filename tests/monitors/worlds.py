"""Targets of which sources say something at random, in the shapes of the real answers."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from models.monitors.defaults import DEFAULTS
from models.monitors.fields import Known, Watch, known_fields, watch
from models.monitors.snapshots import Said
from providers.lookup.replay import retell
from providers.registry import KINDS as ALL_KINDS
from providers.sources.base import Fields
from providers.sources.kind import Kind

KINDS = {name: ALL_KINDS[name] for name in DEFAULTS}
_UNIONS = (UnionType, Union)
MOMENT = datetime(2026, 11, 22, 12, tzinfo=UTC)
EDITIONS = {source.spec.name: "1" for kind in KINDS.values() for source in kind.sources}
_TEXTS = ("amber", "basalt", "cobalt", "2026-11-20")


def fields_of(kind: Kind) -> Known:
    return known_fields(kind.answer)


def exact_watch(kind: Kind) -> Watch:
    """All fields of a kind, without tolerances."""
    return watch(kind.name, fields_of(kind), tolerances=dict.fromkeys(DEFAULTS[kind.name].tolerances, 0))


def answer(kind: Kind, words: Said, moment: datetime = MOMENT) -> dict[str, Any]:
    return retell(kind, kind.normalise(kind.example, ""), words, moment).data


def world(kind: Kind, chance: random.Random) -> dict[str, Fields]:
    """Return what all sources of a kind say of one target."""
    return {source.spec.name: fields(kind, source.fields, chance) for source in kind.sources}


def fields(kind: Kind, paths: frozenset[str], chance: random.Random) -> Fields:
    return {path: value(kind, path, chance) for path in sorted(paths) if chance.random() < 0.6}


def value(kind: Kind, path: str, chance: random.Random) -> Any:
    model: Any = kind.answer
    annotation: Any = model
    for name in path.split("."):
        annotation = _known(model.model_fields[name].annotation)
        model = annotation
    return _of(annotation, chance)


def _known(annotation: Any) -> Any:
    """The type without the null that it may be."""
    if get_origin(annotation) in _UNIONS:
        return next(one for one in get_args(annotation) if one is not NoneType)
    return annotation


def _of(annotation: Any, chance: random.Random) -> Any:
    if get_origin(annotation) in _UNIONS:
        return None if chance.random() < 0.3 else _of(_known(annotation), chance)
    if get_origin(annotation) is list:
        return [_of(get_args(annotation)[0], chance) for _ in range(chance.randrange(4))]
    if get_origin(annotation) is Literal:
        return chance.choice(get_args(annotation))
    if get_origin(annotation) is dict:
        return {chance.choice(_TEXTS): chance.choice(_TEXTS)}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        # A mention that lacks what was asked for is none: no monitor watches it.
        return {
            name: name == "matched" or _of(one.annotation, chance)
            for name, one in annotation.model_fields.items()
        }
    if annotation is bool:
        return chance.random() < 0.5
    if annotation is int:
        return chance.randrange(5)
    if annotation is float:
        return chance.choice((0.0, 0.5, 1.0, 80.0))
    assert annotation is str, annotation
    return chance.choice(_TEXTS)


def shuffled(found: Any, chance: random.Random) -> Any:
    """A copy with every array in another order."""
    if isinstance(found, list):
        items = [shuffled(item, chance) for item in found]
        chance.shuffle(items)
        return items
    if isinstance(found, dict):
        return {name: shuffled(part, chance) for name, part in found.items()}
    return found
