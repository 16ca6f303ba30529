"""How much a mention has to do with hacking: the same number for the same mention, by fixed rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.darkweb.hackishness import hackishness
from providers.darkweb.kind import cut_page
from providers.darkweb.mentions import mention

LEAK = {"name": "x", "host": None, "actors": [], "affected_records": None}
TEXT = "dump dump exploit leaked ransomware stolen fullz"


@pytest.mark.parametrize(
    ("body", "parts", "score"),
    [
        ("A page about gardens.", {}, 0.1),
        ("A page about gardens.", {"paste": {"name": "x"}}, 0.3),
        ("A page about gardens.", {"forum": {"name": "x", "part": "post"}}, 0.4),
        ("A page about gardens.", {"leak": LEAK}, 0.5),
        ("A page about gardens.", {"leak": LEAK | {"actors": ["lockbit3"]}}, 0.6),
        ("A page about gardens.", {"leak": LEAK, "paste": {"name": "x"}}, 0.5),
        ("ada@example.com:Winter2025", {}, 0.4),
        ("A dump.", {}, 0.15),
        ("DUMP and dump", {}, 0.15),
        (TEXT, {}, 0.3),
        ("CVE-2026-1234", {}, 0.2),
        (f"ada@example.com:Winter2025 {TEXT} CVE-2026-1234", {"leak": LEAK | {"actors": ["x"]}}, 1.0),
        (None, {}, 0.1),
    ],
)
def test_a_mention_is_scored_by_what_it_is_and_what_it_has(
    body: str | None, parts: dict[str, Any], score: float
) -> None:
    assert hackishness(mention("x", title=None, body=body, **parts)) == score


@given(st.text(max_size=200), st.booleans())
def test_a_score_is_from_0_to_1_and_always_the_same(body: str, leaked: bool) -> None:
    one = mention("x", title=None, body=body, leak=LEAK if leaked else None)
    assert 0 <= hackishness(one) == hackishness(dict(one)) <= 1


def test_every_mention_of_a_page_has_a_score_whatever_the_source_kept() -> None:
    old = mention("x", title="A dump", body=None) | {"hackishness": None}
    assert [one["hackishness"] for one in cut_page({"results": [old]}, 0, None)["results"]] == [0.15]
