"""Role accounts: addresses of a function and not of a person, such as `sales@` or `postmaster@`.

The names are those of RFC 2142, and those that businesses commonly use.
"""

from __future__ import annotations

import re
from datetime import date

from providers.base import Evidence, Fields, LocalSource, Query, Spec
from providers.installed import Datasets
from providers.ip.countries import COUNTRIES

_PARTED = re.compile(r"[._-]+")
_DIGITS = "0123456789"
_NAMES = frozenset(
    # RFC 2142
    "info marketing sales support abuse noc security postmaster hostmaster usenet news webmaster www uucp "
    "ftp "
    # common
    "accounting accounts admin administrator alert alerts billing board bounce bounces careers compliance "
    "contact customercare customerservice customersupport datenschutz dev devnull devops donotreply "
    "dontreply dpo editor editorial enquiries events feedback finance hello help helpdesk hr inquiries "
    "investors invoice invoices it jobs kontakt legal list mail mailerdaemon management media nepasrepondre "
    "newsletter nichtantworten nobody noreply noresponder notification notifications office operations "
    "orders partners payments press privacy purchasing recruiting recruitment registrar reservations root "
    "salesteam secretary service services shop staff subscribe sysadmin tech team unsubscribe "
    "webadmin".split()
)
# What follows these, such as the name of a service, makes no person of them.
_MACHINES = ("noreply", "donotreply", "dontreply")
_REGIONS = frozenset(
    "africa amer americas apac asia benelux dach emea eu europe global int international intl latam mena "
    "nordics world worldwide "
    # languages whose code is no country's
    "cs da el en fa he hi ja ko nb sv uk zh".split()
)


def find(query: Query, datasets: Datasets) -> Fields:
    """Read the part before the @. A name that is not known may be a function's too."""
    return {"is_role_account": True} if is_role(query.value.local) else {}


def is_role(local: str) -> bool:
    """Whether it names a function, or several: without a tag after a plus, however its words are parted.

    A region or a number may follow (`support-de`, `info2`), or a region come before (`uk_sales`); but not
    parted by a dot, as names are (`jo.list`).
    """
    name = local.partition("+")[0]
    words = [word for word in _PARTED.split(name) if word]
    if "".join(words).startswith(_MACHINES):
        return True
    while len(words) > 1 and (words[-1].isdecimal() or _is_region(words[-1])):
        words.pop()
    if len(words) > 1 and _is_region(words[0]) and name[len(words[0])] in "-_":
        del words[0]
    return "".join(words).rstrip(_DIGITS) in _NAMES or (bool(words) and _NAMES.issuperset(words))


def _is_region(word: str) -> bool:
    return word in _REGIONS or word.upper() in COUNTRIES


SOURCE = LocalSource(
    Spec(
        name="roles",
        kind="email",
        fields=frozenset({"is_role_account"}),
        licence="public domain",
        commercial="yes",
        attribution="RFC 2142, https://www.rfc-editor.org/rfc/rfc2142",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc2142", date(2026, 11, 22)),
        parser_version=2,
    ),
    find,
)
