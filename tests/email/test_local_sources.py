"""What is known of an address without asking anyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from providers.datasets.installed import Datasets
from providers.email import disposable, freemail, maildomain, roles, socials
from providers.sources.base import LocalSource
from providers.sources.email_address import normalise

LISTS = (disposable.SOURCE, roles.SOURCE, freemail.SOURCE)


def known(source: LocalSource, address: str) -> Any:
    return source.find(normalise("email", address, "/email"), Datasets(Path()))


@pytest.mark.parametrize("address", ["a@mailinator.com", "a@any.mailinator.com"])
def test_a_disposable_domain_is_known_with_all_below_it(address: str) -> None:
    assert known(disposable.SOURCE, address) == {"is_disposable": True}


@pytest.mark.parametrize(
    "local",
    [
        "info", "Postmaster", "sales+eu", "noreply", "no-reply", "no_reply", "no.reply", "NoReply",
        "noreply-orders", "no-reply.billing", "do-not-reply", "donotreply", "do_not.reply", "dont-reply",
        "nicht-antworten", "mailer-daemon", "customer.service", "help-desk", "support-de", "support.fr",
        "support_en", "info-emea", "sales-us", "uk-sales", "de_support", "info2", "support-01", "hr-team",
        "it-support", "sales-support", "notifications", "bounces+ada=example.org", "web-master",
        "customer_service.de", "helpdesk2", "no.reply2", "donot-reply", "news.letter", "kundenservice",
        "Kunden-Service", "vertrieb.at", "büro", "serviceclient", "service.client", "réservations",
        "atencion_al_cliente", "información", "servizioclienti", "vendite", "apoio.ao.cliente",
        "klantenservice", "kundeservice", "kundtjänst", "asiakaspalvelu", "obsluga-klienta", "biuro",
        "podpora", "vanzari", "ügyfélszolgálat",
    ],
)  # fmt: skip
def test_a_function_is_told_from_a_person(local: str) -> None:
    assert known(roles.SOURCE, f"{local}@example.com") == {"is_role_account": True}


@pytest.mark.parametrize(
    "local",
    [
        "ada", "ada.lovelace", "jo.list", "al.press", "jo-anne", "ada-de", "de", "uk-ada", "infoada",
        "dev.singh", "1", "-", "nora.eply", "reply", "supporter", "mail.ada",
        "mark.eting", "mark_eting", "s-ales", "in.fo", "su.pport", "norep.ly", "no.rep.ly", "do.notre.ply",
        "kunden.serv.ice", "ali.st", "+sales", "2",
    ],
)  # fmt: skip
def test_a_person_is_not_taken_for_a_function(local: str) -> None:
    assert known(roles.SOURCE, f"{local}@example.com") == {}


@pytest.mark.parametrize(
    "domain",
    [
        "gmail.com", "yahoo.co.uk", "hotmail.fr", "live.com.au", "inbox.lv", "sapo.pt", "mail.ee", "tuta.com",
        "vip.qq.com", "privaterelay.appleid.com", "mozmail.com", "ada.mozmail.com",
    ],
)  # fmt: skip
def test_free_providers_and_relays_everywhere_are_known(domain: str) -> None:
    assert known(freemail.SOURCE, f"a@{domain}") == {"is_free_provider": True}


@pytest.mark.parametrize("source", LISTS, ids=[source.spec.name for source in LISTS])
@pytest.mark.parametrize("domain", ["mailinator.example.com", "gmail.com.example.com", "yahoo-inc.com"])
def test_a_list_that_misses_says_nothing(source: LocalSource, domain: str) -> None:
    assert known(source, f"information@{domain}") == {}


@pytest.mark.parametrize("domain", ["example.com", "yahoo-inc.com", "mail.example.com"])
def test_a_domain_is_a_companys(domain: str) -> None:
    assert known(maildomain.SOURCE, f"a@{domain}") == {"company_domain": domain}


@pytest.mark.parametrize(
    "domain",
    ["gmail.com", "inbox.lv", "hey.com", "mailinator.com", "privaterelay.appleid.com", "yahoo.co.zw"],
)
def test_where_everybody_can_have_an_address_the_domain_is_no_companys(domain: str) -> None:
    assert known(maildomain.SOURCE, f"a@{domain}") == {}


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
