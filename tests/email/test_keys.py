"""Reading names from OpenPGP keys, which are bytes from a stranger."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.email.openpgp import Published, parse
from providers.sources.base import SourceError

OK = json.loads((Path(__file__).parents[1] / "fixtures/openpgp/ok.json").read_text())
KEY: str = OK["exchanges"][0]["text"]


def armoured(packets: bytes) -> str:
    body = base64.b64encode(packets).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{body}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def user_id(text: str, form: str) -> bytes:
    body = text.encode()
    match form:
        case "new":
            return bytes([0xC0 | 13, len(body)]) + body
        case "new, two bytes":
            over = len(body) - 192
            return bytes([0xC0 | 13, (over >> 8) + 192, over & 0xFF]) + body
        case "new, four bytes":
            return bytes([0xC0 | 13, 255]) + len(body).to_bytes(4, "big") + body
        case "old":
            return bytes([0x80 | 13 << 2, len(body)]) + body
        case _:
            return bytes([0x80 | 13 << 2 | 3]) + body


@pytest.mark.parametrize("form", ["new", "new, two bytes", "new, four bytes", "old", "old, to the end"])
def test_every_form_of_packet_is_read(form: str) -> None:
    name = "A" * 250 if "two" in form else "Ada Lovelace"
    key = armoured(bytes([0xC0 | 6, 1, 4]) + user_id(f"{name} <ada@example.com>", form))
    assert parse(Published("ada@example.com", key))["name"] == name


def test_the_name_is_that_of_the_address_that_was_asked_for() -> None:
    assert parse(Published("countess@example.com", KEY))["name"] == "Countess"
    assert parse(Published("ada@example.com", KEY))["name"] == "Ada Lövelace"
    assert parse(Published("eve@example.com", KEY))["name"] is None


@given(st.binary(max_size=300))
def test_no_bytes_break_more_than_their_own_answer(packets: bytes) -> None:
    try:
        fields = parse(Published("ada@example.com", armoured(packets)))
    except (SourceError, IndexError):
        return  # the second is turned into `bad_response` where sources are asked
    assert fields.keys() == {"name", "registered_services.services"}
