"""Sets that rotate among known members, such as the addresses of a large network. Pure.

A set whose members differ from run to run would be a change each time. Therefore a monitor remembers the
members that a set has had, up to the tolerance of its field:

- A member that was never seen is a change.
- If absent members come back, and no others are new, the set rotates. That is reported once.
- From then on the set is quiet as long as all of its members are known.
- A set that loses all members, or has some again, is a change. So is one that only loses members, until it is
  known to rotate.
- For addresses the members are networks in countries, if these are known: another address of the same
  network in the same country is not a new member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from models.monitors.forms import ComparisonRule

Turn = Literal["changed", "rotating", "quiet"]


@dataclass(frozen=True)
class Rotation:
    """The known members of a set.

    Attributes:
        members: all members that it has had, the last seen last.
        told: whether its rotation was reported.
    """

    members: Sequence[str] = ()
    told: bool = False


def rotates(form: ComparisonRule, value: Any) -> bool:
    """Return whether a value is a set, or a member of one, whose members are remembered."""
    if not form.tolerance or form.members:
        return False
    return form.is_member or isinstance(value, list)


def turn(former: Rotation, old: Any, new: Any, form: ComparisonRule) -> tuple[Rotation, Turn]:
    """Judge a set that differs from the set of the run before.

    Args:
        former: its known members.
        old: the set before.
        new: the set now.
        form: the form of its field.
    """
    before, now = (_members(value, form) for value in (old, new))
    known = dict.fromkeys([*former.members, *before])
    found: Turn = "changed"
    if before and now and now <= known.keys():
        found = "quiet" if former.told else "rotating" if now - before else "changed"
    members = [*(one for one in known if one not in now), *sorted(now)][-max(1, int(form.tolerance)) :]
    return Rotation(members, former.told or found == "rotating"), found


def _members(value: Any, form: ComparisonRule) -> set[str]:
    items = cast("list[Any]", value if isinstance(value, list) else [] if value is None else [value])
    return {form.folding(str(one)) for one in items}
