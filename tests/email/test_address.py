"""What counts as an e-mail address."""

from __future__ import annotations

import pytest

from models.errors import Invalid
from providers.sources.email_address import normalise


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("ada@example.com", "ada@example.com"),
        ("  Ada.Lovelace@Example.COM\n", "ada.lovelace@example.com"),
        ("ada+news@example.com", "ada+news@example.com"),
        ("ada@bücher.de", "ada@xn--bcher-kva.de"),
        ("josé@example.com", "josé@example.com"),
        ("ada@例え。jp", "ada@xn--r8jz45g.jp"),
        ("ada@" + "e\u0301" * 40 + ".com", "ada@xn--" + "9c" + "a" * 40 + ".com"),
    ],
)
def test_all_ways_to_write_an_address_become_one(text: str, normal: str) -> None:
    assert normalise("email", text, "/email").text == normal


@pytest.mark.parametrize(
    "text",
    [
        "", "ada", "ada@", "@example.com", "ada@localhost", "ada@example", "ada@[192.0.2.1]",
        "https://example.com/ada", "mailto:ada@example.com", "Ada <ada@example.com>",
        "ada(a comment)@example.com", '"ada l"@example.com', "ada@example.com, bob@example.com",
        "a\x00da@example.com", "ada@exa\x07mple.com", "ada@example.com\r\nbcc: bob@example.com",
        "a" * 10_000 + "@example.com", "ada@" + "a" * 10_000 + ".com",
        "ada@" + "漢" * 64 + ".com", "ada@mail。" + "漢" * 64 + "。com",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise("email", text, "/email")
    [error] = refused.value.errors
    assert (error.pointer, error.code) == ("/email", "invalid_email")
    assert "ada@example.com" in error.message
    assert len(error.message) < 200
