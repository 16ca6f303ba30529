"""What WHOIS servers answer, in the forms that registries document, and what is read in it."""

from __future__ import annotations

import pytest

from providers.base import SourceError
from providers.domain.registrations import parse, referral

CASES = {
    "keys and values": (
        "Domain Name: EXAMPLE.TLD\r\nRegistrar: Example Registrar\r\nCreation Date: 2010-05-06T07:08:09Z\r\n"
        "Registry Expiry Date: 2027-05-06T07:08:09Z\r\nName Server: NS1.EXAMPLE.TLD\r\n"
        "Name Server: ns2.example.tld.\r\n>>> Last update of WHOIS database: 2026-11-21T00:00:00Z <<<\r\n",
        ("Example Registrar", "2010-05-06", "2027-05-06", ["ns1.example.tld", "ns2.example.tld"]),
    ),
    "addresses after name servers": (
        "% Copyright\n\nDomain: example.de\nNserver: ns1.example.de 192.0.2.1\nStatus: connect\n",
        (None, None, None, ["ns1.example.de"]),
    ),
    "names in brackets": (
        "[Domain Name]    EXAMPLE.JP\n[Name Server]    a.example.jp\n[Created on]     2001/02/22\n"
        "[Expires on]     2027/02/28\n",
        (None, "2001-02-22", "2027-02-28", ["a.example.jp"]),
    ),
    "values below their names": (
        "\n    Domain name:\n        example.uk\n\n    Registrar:\n        Example Ltd [Tag = EX]\n"
        "        URL: https://x.example\n\n    Relevant dates:\n        Registered on: 11-Feb-1996\n"
        "        Expiry date:  13-Feb-2027\n\n    Name servers:\n        ns1.example.net  192.0.2.1\n"
        "        ns2.example.net\n",
        ("Example Ltd [Tag = EX]", "1996-02-11", "2027-02-13", ["ns1.example.net", "ns2.example.net"]),
    ),
    "dots before the colon": (
        "domain........: example.fi\ncreated.......: 1.1.1991 00:00:00\nexpires.......: 4.7.2027 10:15:55\n"
        "nserver.......: ns.example.fi [OK]\nregistrar.....: Example Oy\n",
        ("Example Oy", "1991-01-01", "2027-07-04", ["ns.example.fi"]),
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_a_registration_is_read_whatever_its_form(
    text: str, expected: tuple[str | None, str | None, str | None, list[str]]
) -> None:
    fields = parse(text)
    names = ("registrar", "created", "expires", "name_servers")
    assert tuple(fields[f"whois.{name}"] for name in names) == expected


@pytest.mark.parametrize(
    "text",
    [
        'No match for "EXAMPLE.TLD".\r\n>>> Last update\r\n',
        "Domain: example.de\nStatus: free\n",
        "%% No entries found in the selected source.\n",
        "NOT FOUND\n",
        "No Data Found\n",
        "Domain: example.tld\nStatus: AVAILABLE\n",
    ],
)
def test_a_domain_that_is_not_registered_is_an_empty_answer(text: str) -> None:
    assert parse(text) == {}


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Your connection limit exceeded. Please slow down and try again later.", "rate_limited"),
        ("Error: too many requests", "rate_limited"),
        ("", "bad_response"),
        ("Welcome to our server.", "bad_response"),
        ("\x00\x01\x02", "bad_response"),
        ("created: yesterday", "bad_response"),
    ],
)
def test_what_is_no_registration_is_a_failure_and_not_an_empty_answer(text: str, status: str) -> None:
    with pytest.raises(SourceError) as failed:
        parse(text)
    assert failed.value.status == status


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("domain:  DE\nwhois:        whois.denic.de\nstatus: ACTIVE\n", "whois.denic.de"),
        ("refer:        WHOIS.NIC.example\r\n\r\n", "whois.nic.example"),
        ("whois:\nstatus: ACTIVE\n", None),
        ("no such thing", None),
    ],
)
def test_iana_says_whom_to_ask(text: str, server: str | None) -> None:
    assert referral(text) == server
