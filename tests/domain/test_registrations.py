"""What WHOIS servers answer, in the forms that registries document, and what is read in it."""

from __future__ import annotations

import pytest

from providers.domain.registrations import parse, referral
from providers.sources.base import SourceError

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
        "Available\nDomain: example.co.za\n",
        "Domain Name: example.im\nThe domain example.im was not found.\n",
        'domain "example.nu" not found.\n',
        "example.pt no match\n",
        "example.nl is free\n\nCopyright notice\n",
        "example.cl: no existe\n",
        "Domain example.ai not registred.\n",
        "Domain example.tm is available for purchase\n",
        "The domain has not been registered.\n",
        "query : example.kr\n\nAbove domain name is not registered to KRNIC.\n",
        "%ERROR:103: Domain is not registered\n",
        "% No data was found to match the request criteria.\n",
        "% IANA WHOIS server\n% This query returned 0 objects.\n",
        "No_Se_Encontro_El_Objeto/Object_Not_Found\n",
        "We do not have an entry in our database matching your query.\n",
        "Domain not found.\nTerms of Use: "
        + "x" * 80
        + " If too many queries are received, they are rejected.\n",
    ],
)
def test_a_domain_that_is_not_registered_is_said_not_to_be(text: str) -> None:
    assert parse(text) == {"whois.registered": False}


# As the registry of each writes them.
DATES = {
    "com": ("Creation Date: 1997-09-15T04:00:00Z", "1997-09-15"),
    "aero": ("Created On:26-Mar-2002 06:48:27 UTC", "2002-03-26"),
    "at": ("changed: 20110426\ncreated: 20010203", "2001-02-03"),
    "ax": ("Created: Thu Aug 03 2006", "2006-08-03"),
    "be": ("Registered:\tTue Dec 12 2000", "2000-12-12"),
    "bg": ("activated on: 30/06/2003 00:00:00 EEST", "2003-06-30"),
    "br": ("created:     19990518 #162310", "1999-05-18"),
    "cl": ("Creation date: 2002-10-22 17:48:23 CLST", "2002-10-22"),
    "cn": ("Registration Time: 2003-03-17 12:20:05", "2003-03-17"),
    "cz": ("registered:   03.02.2001 15:21:00", "2001-02-03"),
    "edu": ("Domain record activated:    10-May-1999", "1999-05-10"),
    "ee": ("registered: 2010-08-10 16:43:38 +03:00", "2010-08-10"),
    "fi": ("created............: 18.7.2012 04:04:23", "2012-07-18"),
    "hk": ("Domain Name Commencement Date: 06-04-2004", "2004-04-06"),
    "hu": ("record created: 2000.03.25 23:20:39", "2000-03-25"),
    "ie": ("registration: 21-March-2002", "2002-03-21"),
    "is": ("created:      May  2 2002", "2002-05-02"),
    "jp": ("[Registered Date]               2003/09/11", "2003-09-11"),
    "ke": ("Created: 18 Apr 2003 00:00 EAT", "2003-04-18"),
    "kg": ("Record created: Tue Feb 10 09:42:42 2004", "2004-02-10"),
    "kr": ("Registered Date             : 2007. 03. 02.", "2007-03-02"),
    "kz": ("Domain created: 1999-06-07 13:01:43 (GMT+0:00)", "1999-06-07"),
    "lu": ("registered:     04/06/2003", "2003-06-04"),
    "my": ("c [Record Created]          13-MAY-2009", "2009-05-13"),
    "nl": ("Date registered: 27-05-1999", "1999-05-27"),
    "pl": ("created:               2002.09.19 13:00:00", "2002-09-19"),
    "rs": ("Registration date: 10.03.2008 12:31:19", "2008-03-10"),
    "th": ("Created date: 8 Oct 2004", "2004-10-08"),
    "tr": ("Created on..............: 2001-Feb-03.", "2001-02-03"),
    "travel": ("Domain Registration Date: Tue Oct 04 21:44:27 GMT 2005", "2005-10-04"),
    "tw": ("   Record created on 2000-08-29 (YYYY-MM-DD)", "2000-08-29"),
    "ug": ("Registered: 2nd April, 2001", "2001-04-02"),
    "uk": ("    Registered on: 14-Feb-1999", "1999-02-14"),
    "before a month": ("Registered on: before Aug-1996", None),
    "before a year": ("Registered On: Before 2001", None),
    "before a day": ("created: before 19950101", None),
    "no month of ours": ("Creation Date: 23 de agosto de 2012", None),
    "no day of any month": ("Creation Date: 2001-02-30", None),
    "the month first": ("Creation Date: 12/18/2001", None),
}


@pytest.mark.parametrize(("line", "expected"), DATES.values(), ids=DATES)
def test_a_date_is_read_as_each_registry_writes_it(line: str, expected: str | None) -> None:
    fields = parse(f"Domain: example.tld\nRegistrar: Example Ltd\n{line}\n")
    assert (fields["whois.registered"], fields["whois.created"]) == (True, expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("paid-till:     2015.03.05", "2015-03-05"),
        ("expire-date:\t2014-12-22", "2014-12-22"),
        ("Valid Until:                  2019-07-24", "2019-07-24"),
        ("validity:     05-06-2026", "2026-06-05"),
        ("Domain expires:             31-Jul-2014", "2014-07-31"),
        ("Record expires on Sun Mar 30 23:59:00 2014", "2014-03-30"),
        ("Expires: 28th April 2014", "2014-04-28"),
        ("validity:     N/A", None),
    ],
)
def test_the_end_of_a_registration_has_many_names(line: str, expected: str | None) -> None:
    assert parse(f"Registrar: Example Ltd\n{line}\n")["whois.expires"] == expected


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["\n", "-", "a-", "a.", "created", "no ", " ", ".", "%\n", "domain "])
def test_an_answer_that_wants_to_take_long_is_read_at_once(text: str) -> None:
    with pytest.raises(SourceError):
        parse(text * (65536 // len(text)))


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Your connection limit exceeded. Please slow down and try again later.", "rate_limited"),
        ("Error: too many requests", "rate_limited"),
        ("%% Too many requests...\n%%\n%% No entries found in the AFNIC Database.\n", "rate_limited"),
        ("Domain Status: Prohibited String - Object Cannot Be Registered\n", "bad_response"),
        ("This information is not available for registered domain names.\n", "bad_response"),
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
