"""The people of a company of whom only its register tells."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations

from providers.company.kind import derive

MOMENT = datetime(2026, 11, 22, tzinfo=UTC)


def test_someone_with_several_offices_has_the_same_role_in_whatever_order_they_are_listed() -> None:
    officers = [
        {"name": "Ada", "role": "secretary"},
        {"name": "Ada", "role": "director"},
        {"name": "Ada", "role": None},
    ]
    ada = {"email": None, "name": "Ada", "role": "director", "linkedin": None}
    for listed in permutations(officers):
        assert derive({"profile.officers": list(listed)}, MOMENT) == {"results": ([ada], "profile.officers")}


def test_people_without_a_role_are_listed_as_the_register_lists_them() -> None:
    officers = [{"name": name, "role": None} for name in ("Bob", "Ada")]
    people, _ = derive({"profile.officers": officers}, MOMENT)["results"]
    assert [(one["name"], one["role"]) for one in people] == [("Bob", None), ("Ada", None)]
