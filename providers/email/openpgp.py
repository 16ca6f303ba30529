"""keys.openpgp.org: the name in the OpenPGP key that the owner of the address published there.

The server returns a key for an address only after its owner has confirmed it by mail.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from datetime import date
from email.utils import parseaddr
from typing import NamedTuple
from urllib.parse import quote

from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    json_answer,
)
from settings import Rate

_BEGIN, _END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
_USER_ID = 13


class Published(NamedTuple):
    """The key that was found for an address, ASCII-armoured."""

    address: str
    key: str


async def fetch(query: Query, context: Context) -> Published | None:
    """Fetch the key; None if there is none."""
    response = await context.client.get(
        f"{context.base_url}/vks/v1/by-email/{quote(query.text, safe='')}", timeout=context.timeout
    )
    if response.status_code != 200:
        return json_answer(response, empty=frozenset({404}))
    return Published(query.text, response.text)


def parse(published: Published | None) -> Fields:
    """Read the name from the user id that has the address."""
    if published is None:
        return {}
    names = [parseaddr(user_id) for user_id in _user_ids(_dearmour(published.key))]
    matching = [name for name, address in names if address.lower() == published.address]
    return {
        "name": next(filter(None, matching), None),
        "registered_services.services": ["keys.openpgp.org"],
    }


def _dearmour(text: str) -> bytes:
    """Return the packets: the base64 lines after the headers and their blank line, without the checksum."""
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise SourceError("bad_response", "not_a_key")
    lines = [line.strip() for line in text[begin + len(_BEGIN) : end].splitlines()[1:]]
    body = lines[lines.index("") + 1 :] if "" in lines else lines
    try:
        return binascii.a2b_base64("".join(line for line in body if not line.startswith("=")))
    except binascii.Error:
        raise SourceError("bad_response", "not_a_key") from None


def _user_ids(data: bytes) -> Iterator[str]:
    """Yield the bodies of the user id packets (RFC 9580, 4.2)."""
    position = 0
    while position < len(data):
        tag = data[position]
        if not tag & 0x80:
            raise SourceError("bad_response", "not_a_key")
        kind, (start, length) = (
            (tag & 0x3F, _new_length(data, position + 1))
            if tag & 0x40
            else (tag >> 2 & 0x0F, _old_length(data, position + 1, tag & 0x03))
        )
        if kind == _USER_ID:
            yield data[start : start + length].decode("utf-8", "replace")
        position = start + length


def _new_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the start and length of the body, for a packet in the current format."""
    first = data[position]
    if first < 192:
        return position + 1, first
    if first < 224:
        return position + 2, ((first - 192) << 8) + data[position + 1] + 192
    if first == 255:
        return position + 5, int.from_bytes(data[position + 1 : position + 5], "big")
    raise SourceError("bad_response", "not_a_key")  # a partial length, which keys do not use


def _old_length(data: bytes, position: int, length_type: int) -> tuple[int, int]:
    """Return the same for the legacy format; the indeterminate length extends to the end."""
    if length_type == 3:
        return position, len(data) - position
    size = 1 << length_type
    return position + size, int.from_bytes(data[position : position + size], "big")


SOURCE = RemoteSource(
    RemoteSpec(
        name="openpgp",
        kind="email",
        fields=frozenset({"name", "registered_services.services"}),
        licence="keys.openpgp.org privacy policy: what people publish themselves",
        terms="https://keys.openpgp.org/about/privacy",
        attribution="keys.openpgp.org",
        evidence=Evidence("https://keys.openpgp.org/about/api", date(2026, 11, 21)),
        base_url="https://keys.openpgp.org",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(50, 3000),),  # one a minute; bursts are allowed, their size is not documented
    ),
    fetch,
    parse,
)
