"""What is known of an address without asking anyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from providers.base import LocalSource
from providers.email import disposable, freemail, maildomain, roles, socials
from providers.email.address import normalise
from providers.installed import Datasets


def known(source: LocalSource, address: str) -> Any:
    return source.find(normalise("email", address, "/email"), Datasets(Path()))


@pytest.mark.parametrize(
    ("address", "disposed"),
    [
        ("a@mailinator.com", True),
        ("a@any.mailinator.com", True),
        ("a@mailinator.example.com", False),
        ("a@gmail.com", False),
        ("a@example.com", False),
    ],
)
def test_a_disposable_domain_is_known_with_all_below_it(address: str, disposed: bool) -> None:
    assert known(disposable.SOURCE, address) == {"is_disposable": disposed}


@pytest.mark.parametrize(
    ("address", "role"),
    [
        ("info@example.com", True),
        ("Postmaster@example.com", True),
        ("sales+eu@example.com", True),
        ("information@example.com", False),
        ("ada@example.com", False),
    ],
)
def test_a_function_is_told_from_a_person(address: str, role: bool) -> None:
    assert known(roles.SOURCE, address) == {"is_role_account": role}


@pytest.mark.parametrize(
    ("address", "free"),
    [
        ("a@gmail.com", True),
        ("a@yahoo.co.uk", True),
        ("a@hotmail.fr", True),
        ("a@live.com.au", True),
        ("a@gmail.com.example.com", False),
        ("a@yahoo.example.com", False),
        ("a@yahoo-inc.com", False),
        ("a@example.com", False),
    ],
)
def test_a_free_provider_is_known_in_every_country(address: str, free: bool) -> None:
    assert known(freemail.SOURCE, address) == {"is_free_provider": free}


@pytest.mark.parametrize(
    ("address", "domain"),
    [("a@example.com", "example.com"), ("a@gmail.com", None), ("a@mailinator.com", None)],
)
def test_a_domain_is_a_companys_unless_everybody_can_have_an_address_there(
    address: str, domain: str | None
) -> None:
    assert known(maildomain.SOURCE, address).get("company_domain") == domain


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("https://github.com/ada", {"socials.github": "https://github.com/ada"}),
        ("https://uk.linkedin.com/in/ada", {"socials.linkedin": "https://uk.linkedin.com/in/ada"}),
        ("https://twitter.com/ada", {"socials.twitter": "https://twitter.com/ada"}),
        ("https://x.com/ada", {"socials.twitter": "https://x.com/ada"}),
        ("https://github.com/", {}),
        ("https://github.com.example.com/ada", {}),
        ("https://notx.com/ada", {}),
        ("javascript://x.com/ada", {}),
        ("", {}),
    ],
)
def test_a_page_is_known_by_its_host(url: str, fields: dict[str, str]) -> None:
    assert socials.socials([url]) == fields
