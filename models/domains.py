"""Domain names: names in any script → the form that DNS uses, and the registered domain."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple
from unicodedata import category

import idna
import tldextract

from models.errors import FieldError, Invalid

LONGEST_LABEL = 63
_LONGEST = 253
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ACE = "xn--"
# Skin colours, and the joiner that makes one emoji of two.
_IN_EMOJI = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff\u200d")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
# The public suffix list that comes with the library: nothing is fetched.
_suffixes = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())


class Domain(NamedTuple):
    """A domain name in the form of DNS: lower case, without a trailing dot.

    Attributes:
        name: the whole name, such as `www.example.co.uk`.
        registered: the part that someone registered, `example.co.uk`.
        tld: the last label, `uk`.
    """

    name: str
    registered: str
    tld: str


def parse_domain(text: str, pointer: str) -> Domain:
    """Read a domain as people write it.

    Args:
        text: a name in any script, with or without a last dot.
        pointer: JSON pointer to the text in the caller's input.

    Raises:
        Invalid: the text is no domain; the message names what it looks like instead, if that is clear.
    """
    text = text.strip()
    complaint = _mistaken(text)
    if complaint is not None:
        raise _invalid(pointer, complaint)
    try:
        name = _ascii(text)
    except ValueError:
        raise _invalid(pointer, "This is not a domain name") from None
    parts = _suffixes.extract_str(name)
    if not parts.suffix:
        raise _invalid(pointer, "This name does not end in a public domain such as .com")
    if not parts.domain:
        raise _invalid(pointer, "This is a public suffix, under which others register their domains")
    return Domain(name, f"{parts.domain}.{parts.suffix}", name.rpartition(".")[2])


def _mistaken(text: str) -> str | None:
    """Return a message if the text is clearly something else: a URL, an e-mail address or an IP address."""
    if "://" in text or "/" in text:
        return "This is a URL; only its domain belongs here"
    if "@" in text:
        return "This is an e-mail address; only its domain belongs here"
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        return None
    return "This is an IP address, which has a lookup of its own"


def _ascii(text: str) -> str:
    if len(text) > _LONGEST + 1 or _UNSAFE.search(text):
        raise ValueError
    text = idna.uts46_remap(text, std3_rules=True).removesuffix(".")
    name = ".".join(_label(label) for label in text.split("."))
    if len(name) > _LONGEST:
        raise ValueError
    return name


def _label(label: str) -> str:
    """Return a label as DNS has it, by IDNA 2008; emoji are accepted too, as some registries allow them.

    An ASCII label is accepted as registries do, with any hyphens within.
    """
    if len(label) > LONGEST_LABEL:  # encoding takes quadratic time
        raise ValueError
    if label.isascii() and not label.startswith("xn--"):
        if not _LABEL.fullmatch(label):
            raise ValueError
        return label
    try:
        return idna.alabel(label).decode()
    except idna.IDNAError:
        name = _with_emoji(label)
        if name is None:
            raise
        return name


def _with_emoji(label: str) -> str | None:
    """Return the DNS form of a label with emoji; None unless IDNA allows its other characters."""
    shown = label[len(_ACE) :].encode().decode("punycode") if label.startswith(_ACE) else label
    rest, in_emoji = "", False
    for character in shown:
        in_emoji = category(character) == "So" or (in_emoji and character in _IN_EMOJI)
        rest += "" if in_emoji else character
    if rest == shown or shown != shown.strip("-") or idna.uts46_remap(shown) != shown:
        return None
    if not rest.isascii():
        idna.alabel(rest.strip("-"))
    name = _ACE + shown.encode("punycode").decode()
    # Each label has exactly one DNS form: other spellings are rejected.
    is_same = name == label or not label.startswith(_ACE)
    return name if is_same and len(name) <= LONGEST_LABEL else None


def _invalid(pointer: str, complaint: str) -> Invalid:
    return Invalid([FieldError(pointer, "invalid_domain", f"{complaint}; give one such as example.com.")])
