"""Which texts are domains, and what is said of those that are none."""

from __future__ import annotations

import pytest

from models.errors import Invalid
from providers.domain.kind import KIND, normalise


@pytest.mark.parametrize(
    ("given", "name", "registered"),
    [
        ("example.com", "example.com", "example.com"),
        ("  Example.COM.\n", "example.com", "example.com"),
        ("www.example.co.uk", "www.example.co.uk", "example.co.uk"),
        ("bücher.de", "xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("XN--BCHER-KVA.de", "xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("faß.de", "xn--fa-hia.de", "xn--fa-hia.de"),  # IDNA 2008: not fass.de
        ("пример.рф", "xn--e1afmkfd.xn--p1ai", "xn--e1afmkfd.xn--p1ai"),
        ("例え。jp", "xn--r8jz45g.jp", "xn--r8jz45g.jp"),
        ("ＥＸＡＭＰＬＥ.com", "example.com", "example.com"),
        ("r3---sn-x.example.com", "r3---sn-x.example.com", "example.com"),
        ("💩.la", "xn--ls8h.la", "xn--ls8h.la"),
        ("XN--LS8H.la", "xn--ls8h.la", "xn--ls8h.la"),
        ("i❤️.ws", "xn--i-7iq.ws", "xn--i-7iq.ws"),
        ("☃.net", "xn--n3h.net", "xn--n3h.net"),
        ("👩‍💻.to", "xn--1ug1855pcha.to", "xn--1ug1855pcha.to"),
        ("👍🏽.ws", "xn--on8h5e.ws", "xn--on8h5e.ws"),
        ("bücher📚.ws", "xn--bcher-kva08860g.ws", "xn--bcher-kva08860g.ws"),
        ("someone.github.io", "someone.github.io", "github.io"),
    ],
)
def test_every_way_to_write_a_domain_is_the_same_query(given: str, name: str, registered: str) -> None:
    query = normalise(given, "/domain")
    assert (query.text, query.value.registered) == (name, registered)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("https://example.com/page", "URL"),
        ("example.com/page", "URL"),
        ("ada@example.com", "e-mail"),
        ("ada(comment)@example.com", "e-mail"),
        ("8.8.8.8", "IP address"),
        ("[2606:4700::1111]", "IP address"),
        ("com", "public suffix"),
        ("co.uk", "public suffix"),
        ("рф", "public suffix"),
        ("localhost", "public domain"),
        ("printer.local", "public domain"),
        ("intranet.corp.internal", "public domain"),
        ("", "not a domain"),
        ("a..example.com", "not a domain"),
        (".example.com", "not a domain"),
        ("example.com..", "not a domain"),
        ("example.com:443", "not a domain"),
        ("*.example.com", "not a domain"),
        ("my_host.example.com", "not a domain"),
        ("-a.example.com", "not a domain"),
        ("exa mple.com", "not a domain"),
        ("example.com\x00", "not a domain"),
        ("exam\nple.com", "not a domain"),
        ("xn--zzzzzz.com", "not a domain"),
        ("xn--☃.net", "not a domain"),
        ("-☃.net", "not a domain"),
        ("☃" * 63 + ".net", "not a domain"),
        ("a\u200db.com", "not a domain"),  # the joiner of emoji, without any
        ("a🏽.com", "not a domain"),
        ("a" * 64 + ".com", "not a domain"),
        ("漢" * 64 + ".com", "not a domain"),
        ("a." * 126 + "com", "not a domain"),
        ("x" * 10_000, "not a domain"),
    ],
)
def test_what_is_no_domain_is_refused_with_what_it_is_and_a_good_example(given: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(given, "/queries/3")
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/queries/3", "invalid_domain")
    assert hint in error.message
    assert "example.com" in error.message


def test_the_example_of_the_kind_is_a_good_query() -> None:
    assert normalise(KIND.example, "").text == KIND.example
