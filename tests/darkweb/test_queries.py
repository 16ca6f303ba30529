"""What can be searched for, and how mentions are read: without secrets, cut into pages."""

from __future__ import annotations

import time
from typing import Any

import pytest

from models.errors import Invalid
from providers.darkweb.kind import cost, cut_page, normalise
from providers.darkweb.mentions import has_query, iso_timestamp, mention
from providers.darkweb.redaction import redact


@pytest.mark.parametrize(
    ("text", "normalised", "sort"),
    [
        (" Ada@Example.COM ", "ada@example.com", "email"),
        ("Example.COM", "example.com", "domain"),
        ("bücher.example", "bücher.example", "domain"),
        ("8.8.8.8", "8.8.8.8", "ip"),
        ("2606:4700:4700::1111", "2606:4700:4700::1111", "ip"),
        ("Example   Bank  plc", "Example Bank plc", "text"),
        ("https://example.com/login", "https://example.com/login", "text"),
        ("ada(comment)@example.com", "ada(comment)@example.com", "text"),
    ],
)
def test_a_query_is_of_a_sort(text: str, normalised: str, sort: str) -> None:
    query = normalise(text, "/query")
    assert (query.kind, query.words, query.value) == ("darkweb", normalised, sort)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Example Bank", "EXAMPLE  bank"),
        ("Société Générale", "socie\u0301te\u0301 ge\u0301ne\u0301rale"),
        ("Straße", "STRASSE"),
        ("BÜCHER.example", "bu\u0308cher.example"),
    ],
)
def test_words_are_one_query_in_whatever_case_and_encoding_they_come(one: str, other: str) -> None:
    assert normalise(one, "/query").text == normalise(other, "/query").text


@pytest.mark.parametrize("text", ["", "ab", "...", "x" * 10_000, "a\x00bc", "a\tbc", "abc\ue000"])
def test_what_cannot_be_searched_for_is_refused_with_a_good_example(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        normalise(text, "/query")
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/query", "invalid_query")
    assert "such as example.com" in error.message


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            "ada@example.com:hunter2\nbob@example.com;x,y",
            "ada@example.com:[redacted]\nbob@example.com;[redacted]",
        ),
        ("ada@example.com | letmein", "ada@example.com | [redacted]"),
        ("to: ada@example.com; bob@example.com", "to: ada@example.com; bob@example.com"),
        ("Password: s3cr3t! ok", "Password: [redacted] ok"),
        ('{"db_password": "a b c", "user": "ada"}', '{"db_password": [redacted], "user": "ada"}'),
        ("the pin is 1234", "the pin is [redacted]"),
        ("API-Key=abc123", "API-Key=[redacted]"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer [redacted]"),
        ("ftp://ada:hunter2@example.com/x", "ftp://ada:[redacted]@example.com/x"),
        ("card 4111 1111 1111 1111 exp 01/30", "card [redacted] exp 01/30"),
        ("order 4111 1111 1111 1112", "order 4111 1111 1111 1112"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("ghp_0123456789abcdefghij", "[redacted]"),
        ("5f4dcc3b5aa765d61d8327deb882cf99", "[redacted]"),
        ("$2b$12$abcdefghijklmnopqrstuv", "[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----!", "[redacted]!"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]"),
        ("nothing secret here, 2026-01-02 at 10:30", "nothing secret here, 2026-01-02 at 10:30"),
    ],
)
def test_secrets_are_taken_out_and_what_surrounds_them_stays(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text", ["a" * 20_000, "a-" * 10_000, "a@" * 10_000, "1 " * 10_000, "http://" * 3000]
)
def test_no_text_takes_long_to_redact(text: str) -> None:
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 1


def test_a_mention_lists_what_its_text_names_and_has_no_empty_parts() -> None:
    told = mention(
        "forum",
        title="Dump of example.com",
        body="ADA@example.com:pw from 8.8.8.8 and 10.0.0.1, cve-2026-12345; 10:30:00",
        leak=None,
        paste={"name": "x"},
    )
    assert told["body"] == "ADA@example.com:[redacted] from 8.8.8.8 and 10.0.0.1, cve-2026-12345; 10:30:00"
    assert (told["emails"], told["ips"], told["cves"]) == (
        ["ada@example.com"],
        ["8.8.8.8"],
        ["CVE-2026-12345"],
    )
    assert told["paste"] == {"name": "x"}
    assert told.keys().isdisjoint({"leak", "chat", "irc", "forum", "market"})
    assert mention("forum", title="", body=None) == {
        "source": "forum", "title": None, "body": None, "domain": None, "crawl_date": None,
        "emails": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-08-05T07:21:07.666586+02:00", "2026-08-05T05:21:07Z"),
        ("2026-08-05 07:21:07", "2026-08-05T07:21:07Z"),
        ("2026-08-05", "2026-08-05T00:00:00Z"),
        ("yesterday", None),
        (None, None),
    ],
)
def test_moments_are_in_utc(text: str | None, moment: str | None) -> None:
    assert iso_timestamp(text) == moment


def mentions(count: int) -> dict[str, Any]:
    found = [
        mention("x", title=f"{n:03d}", body=None, crawl_date=f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z")
        for n in range(count)
    ]
    return {"results": found, "total": count}


@pytest.mark.parametrize(
    ("count", "offset", "first", "size", "credits"),
    [
        (250, 0, "249", 20, 1),
        (250, 90, "159", 10, 1),  # a page ends where its block does
        (250, 100, "149", 20, 1),
        (250, 240, "009", 10, 1),
        (250, 260, None, 0, 0),
        (5, 0, "004", 5, 1),
        (0, 0, None, 0, 0),
    ],
)
def test_a_page_has_the_latest_mentions_first(
    count: int, offset: int, first: str | None, size: int, credits: int
) -> None:
    page = cut_page(mentions(count), offset, None)
    assert (page["total"], page["result_count"], len(page["results"])) == (count, size, size)
    assert (page["results"][0]["title"] if size else None) == first
    assert cost(page) == credits


def test_hits_without_the_query_come_last_and_count_as_nothing() -> None:
    fields = mentions(3)
    fields["results"][2]["matched"] = False
    fields["total"] = 2
    page = cut_page(fields, 0, None)
    assert [(one["title"], one["matched"]) for one in page["results"]] == [
        ("001", True), ("000", True), ("002", False),
    ]  # fmt: skip
    assert (page["total"], page["result_count"], cost(page)) == (2, 2, 1)
    assert cost(cut_page(fields, 2, None)) == 0
    assert len(cut_page(fields, 0, 1000)["results"]) == 2


@pytest.mark.parametrize(
    ("query", "sort", "text", "found"),
    [
        ("example.com", "domain", "Accounts of EXAMPLE.com", True),
        ("example.com", "domain", "at mail.example.com.", True),
        ("example.com", "domain", "https://example.com/login", True),
        ("example.com", "domain", "ada@example.com:pass", True),
        ("example.com", "domain", "notexample.com", False),
        ("example.com", "domain", "not-example.com", False),
        ("example.com", "domain", "example.com.evil.org", False),
        ("example.com", "domain", "example.company", False),
        ("ada@example.com", "email", "<Ada@Example.com>", True),
        ("ada@example.com", "email", "bada@example.com", False),
        ("ada@example.com", "email", "x.ada@example.com", False),
        ("1.1.1.1", "ip", "from 1.1.1.1, and", True),
        ("1.1.1.1", "ip", "from 1.1.1.15", False),
        ("1.1.1.1", "ip", "from 11.1.1.1 and 2.1.1.1.1", False),
        ("ada lovelace", "text", "Lovelace, Ada", True),
        ("ada lovelace", "text", "Ada Byron", False),
        ("ada", "text", "Canada", False),
    ],
)
def test_what_a_text_must_have_to_match(query: str, sort: str, text: str, found: bool) -> None:
    assert has_query(text, query, sort) is found


def test_the_total_is_the_greatest_that_a_source_tells_and_no_less_than_what_is_there() -> None:
    assert cut_page(mentions(3) | {"total": 900}, 0, None)["total"] == 900
    assert cut_page(mentions(3) | {"total": 2}, 0, None)["total"] == 3


def test_a_total_is_always_a_number() -> None:
    assert cut_page({}, 0, None)["total"] == 0
    assert cut_page({"total": 0}, 0, None)["total"] == 0
