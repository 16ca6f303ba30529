"""Redaction: no form of a secret that an endpoint may echo is left, and nothing else is touched."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import Any, cast
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.redaction import MASK, MAX_DEPTH, Redaction
from language.expressions import JSON

# Each character of it is written differently somewhere.
SECRET = "s3cr\"t/+ <ä&é'\n%41"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("secrets", "value", "redacted"),
    [
        (["hush-hush"], "hush-hush", MASK),
        (["hush-hush"], "Bearer hush-hush", f"Bearer {MASK}"),
        (["hush-hush"], "hush-hush,hush-hush", f"{MASK},{MASK}"),
        (["hush-hush"], {"a": ["x", {"b": "=hush-hush"}]}, {"a": ["x", {"b": f"={MASK}"}]}),
        (["hush-hush"], {"hush-hush": 1, "b": 2}, {MASK: 1, "b": 2}),
        (["hush", "hush-hush"], "hush-hush hush", f"{MASK} {MASK}"),
        (["one-one", "two-two"], ["one-one", "two-two", "three"], [MASK, MASK, "three"]),
        (["  hush-hush\n"], "hush-hush", MASK),
        (["12345678"], {"pin": 12345678, "other": 123456789}, {"pin": MASK, "other": 123456789}),
        (["true", "null"], [True, None, "true"], [True, None, MASK]),
        (["abc"], ["abc", "abcd", {"abc": "c"}], [MASK, "abcd", {MASK: "c"}]),
        (["1"], ["1", 1, "11"], [MASK, 1, "11"]),
        (["é"], ["é", "%C3%A9", "café"], [MASK, "%C3%A9", "café"]),
        (["****"], "*****", MASK),
        (["a***", "hush-hush"], "ahush-hush", MASK),
        (["hush-hush"], "HUSH-HUSH", "HUSH-HUSH"),
    ],
)
def test_a_secret_is_replaced_wherever_it_stands(secrets: list[str], value: JSON, redacted: JSON) -> None:
    assert Redaction(secrets).apply(value) == redacted


@pytest.mark.parametrize(
    "echo",
    [
        quote(SECRET, safe=""),
        quote(SECRET),
        quote(SECRET, safe="/?:@!$&'()*+,;="),
        re.sub("%..", lambda escape: escape[0].lower(), quote(SECRET)),
        quote_plus(SECRET),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        html.escape(SECRET),
        html.escape(SECRET, quote=False),
        html.escape(SECRET).replace("&#x27;", "&#39;"),
        SECRET.encode().decode("latin-1"),
        unquote(SECRET),
        unquote_plus(SECRET),
        b64(SECRET),
        b64(SECRET).rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_form_in_which_it_is_echoed_is_replaced(echo: str) -> None:
    assert echo != SECRET
    assert Redaction([SECRET]).apply({"echo": f"<{echo}>"}) == {"echo": f"<{MASK}>"}


@pytest.mark.parametrize("user", ["", "u", "us", "use", "user", "someone@example.com"])
@pytest.mark.parametrize("after", ["", ":", "::", "and more"])
@pytest.mark.parametrize("secret", ["hush-hush", "hush-hush!", "hush-hush!!"])
def test_it_is_found_within_base64(user: str, after: str, secret: str) -> None:
    text = b64(f"{user}:{secret}{after}")
    redacted = cast(str, Redaction([secret]).apply(f"Basic {text}"))
    assert redacted.startswith("Basic ") and MASK in redacted
    left = redacted.removeprefix("Basic ").replace(MASK, "").rstrip("=")
    # What stands around it, and at most the character on each side that it shares.
    assert len(left) <= len(b64(f"{user}:").rstrip("=")) + len(b64(after).rstrip("=")) + 2


@pytest.mark.parametrize("secrets", [[], [""], ["hush-hush"], ["ab"]])
def test_where_there_is_nothing_to_replace_the_value_itself_comes_back(secrets: list[str]) -> None:
    value: JSON = {"a": ["abc", 1, 1.5, None, True], "b": {}}
    assert Redaction(secrets).apply(value) is value


def test_text_is_redacted_as_values_are() -> None:
    assert Redaction(["hush-hush"]).text("could not send hush-hush") == f"could not send {MASK}"


def nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, MAX_DEPTH - 1, MAX_DEPTH, 900])
def test_a_secret_at_any_depth_is_replaced(depth: int) -> None:
    redacted = Redaction(["hush-hush"]).apply(nested(depth, "hush-hush"))
    for _ in range(min(depth, MAX_DEPTH)):
        assert isinstance(redacted, list)
        redacted = redacted[0]
    assert redacted == MASK


def test_a_lone_surrogate_beside_a_secret_does_no_harm() -> None:
    assert Redaction(["hush-hush"]).apply(["\ud800 hush-hush"]) == [f"\ud800 {MASK}"]


# Few letters, so that secrets meet, overlap and stand in each other's encodings.
texts = st.text(st.sampled_from('ab*"\\/%+ &<ä=\n'), max_size=12)
secret_values = st.lists(texts.filter(bool), min_size=1, max_size=4)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts


@st.composite
def echoes(draw: st.DrawFn) -> tuple[list[str], JSON]:
    """Secrets, and JSON with some of them in it, in one form or another."""
    secrets = draw(secret_values)
    encodings = [str, quote, quote_plus, b64, json.dumps, html.escape]
    forms = st.builds(lambda encode, secret: encode(secret), *map(st.sampled_from, (encodings, secrets)))
    strings = st.lists(texts | forms, max_size=4).map("".join)
    leaves = scalars | strings
    values = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4)
    )
    return secrets, draw(values)


def strings_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in cast(list[Any], value) for text in strings_of(item)]
    if isinstance(value, dict):
        pairs = cast(dict[str, Any], value).items()
        return [text for name, item in pairs for text in (name, *strings_of(item))]
    return []


@given(echoes())
def test_no_string_of_the_result_holds_a_secret(echo: tuple[list[str], JSON]) -> None:
    secrets, value = echo
    for text in strings_of(Redaction(secrets).apply(value)):
        for secret in secrets:
            encodings = {secret, quote(secret), quote_plus(secret), b64(secret)}
            assert text == MASK or text != secret
            assert len(secret) < 4 or not [form for form in encodings if form in text]


@given(
    st.lists(st.text("xyz", min_size=4), min_size=1),
    scalars | st.lists(scalars) | st.dictionaries(texts, scalars),
)
def test_what_holds_no_secret_stays_as_it_is(secrets: list[str], value: JSON) -> None:
    assert Redaction(secrets).apply(value) == value
