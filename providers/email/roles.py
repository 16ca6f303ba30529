"""Role accounts: addresses of a function and not of a person, such as `sales@` or `postmaster@`.

The names are those of RFC 2142, and those that businesses commonly use.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from providers.datasets.installed import Datasets
from providers.ip.countries import COUNTRIES
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec

_PARTED = re.compile(r"[._-]+")
_DIGITS = "0123456789"
# Hyphens separate the words of one name. The name is also recognised without them, or with dots or
# underscores.
_TABLE = (
    # RFC 2142
    "info marketing sales support abuse noc security post-master host-master usenet news web-master www "
    "uucp ftp "
    # common
    "accounting accounts admin administrator alert alerts billing board bookings bounce bounces careers "
    "compliance contact customer-care customer-service customer-support data-protection dev dev-null "
    "dev-ops do-not-reply dont-reply dpo editor editorial enquiries events feed-back finance hello help "
    "help-desk hr inquiries investors invoice invoices it jobs legal list mail mailer-daemon management "
    "media news-letter no-body no-reply no-responder notification notifications office operations orders "
    "partners payments press privacy purchasing recruiting recruitment registrar reservations root "
    "sales-team secretary service services shop staff subscribe sys-admin tech team un-subscribe "
    "web-admin "
    # Danish, Norwegian, Swedish
    "bestilling forsaljning inkop kundcenter kundecenter kundeservice kundesenter kundservice kundsupport "
    "kundtjanst okonomi ordrer regnskab regnskap salg "
    # Dutch
    "administratie bestellingen boekhouding facturen inkoop klanten-service klanten-contact receptie "
    "redactie secretariaat vacatures verkoop "
    # Finnish
    "asiakaspalvelu laskutus myynti tilaukset toimisto "
    # French
    "achats accueil commandes commercial compta comptabilite direction facturation factures "
    "ne-pas-repondre presse recrutement relation-client reservation secretariat service-client "
    "service-clients ventes "
    # German
    "anfrage anfragen bestellung bestellungen bewerbung bewerbungen buchhaltung buero buro datenschutz "
    "einkauf empfang karriere kontakt kunden-betreuung kunden-dienst kunden-service nicht-antworten "
    "poststelle rechnung rechnungen redaktion reklamation sekretariat verkauf versand vertrieb verwaltung "
    "zentrale "
    # Hungarian
    "rendeles szamlazas ugyfelszolgalat "
    # Italian
    "acquisti amministrazione assistenza assistenza-clienti contabilita contatti fatturazione fatture "
    "informazioni ordini prenotazioni risorse-umane segreteria servizio-clienti stampa ufficio vendite "
    # Polish, Czech, Slovak
    "biuro fakturace faktury kadry ksiegowosc objednavky obchod obsluga-klienta podpora predaj prodej "
    "redakcja reklamace reklamacje rekrutacja sprzedaz uctarna zakaznicky-servis zamowienia "
    # Portuguese, Spanish
    "administracion apoio-ao-cliente apoio-cliente atencion-al-cliente atencion-cliente atendimento "
    "compras contabilidad contabilidade contacto contato empleo encomendas facturacion faturacao "
    "faturamento financeiro imprensa informacion pedidos prensa recepcion recrutamento reservas rrhh "
    "soporte suporte vendas ventas "
    # Romanian
    "birou comenzi contabilitate facturi vanzari "
).split()
_PHRASES = frozenset(tuple(name.split("-")) for name in _TABLE) | {
    (name.replace("-", ""),) for name in _TABLE
}
_LONGEST = max(map(len, _PHRASES))
# Text after these, such as the name of a service, does not make the address a person's.
_MACHINES = (("no", "reply"), ("do", "not", "reply"), ("donot", "reply"), ("dont", "reply"))
_REGIONS = frozenset(
    "africa amer americas apac asia benelux dach emea eu europe global int international intl latam mena "
    "nordics world worldwide "
    # languages whose code is not a country's
    "cs da el en fa he hi ja ko nb sv uk zh".split()
)


def find(query: Query, datasets: Datasets) -> Fields:
    """Read the part before the @. An unknown name may be a function's too."""
    return {"is_role_account": True} if is_role(query.value.local) else {}


def is_role(local: str) -> bool:
    """Return whether the name is one or several functions, ignoring accents and a tag after a plus.

    Marks separate words: `customer.service` is a function because these two words are one, and `mark.eting`
    is none. A region or a number may follow (`support-de`, `info2`), or a region may come first (`uk_sales`),
    but not separated by a dot, as in people's names (`jo.list`).
    """
    name = _plain(local.partition("+")[0])
    words = [word for word in _PARTED.split(name) if word]
    if any(_starts_with(words, machine) for machine in _MACHINES):
        return True
    while len(words) > 1 and (words[-1].isdecimal() or _is_region(words[-1])):
        words.pop()
    if len(words) > 1 and _is_region(words[0]) and name[len(words[0])] in "-_":
        del words[0]
    if words:
        words[-1] = words[-1].rstrip(_DIGITS)
    return bool(words) and _are_functions(tuple(words))


def _plain(name: str) -> str:
    """Remove the accents."""
    return "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))


def _starts_with(words: list[str], machine: tuple[str, ...]) -> bool:
    """Return whether the words begin with these, joined or not; the last word may be longer."""
    if words and words[0].startswith("".join(machine)):
        return True
    *first, last = machine
    return words[: len(first)] == first and len(words) > len(first) and words[len(first)].startswith(last)


def _are_functions(words: tuple[str, ...]) -> bool:
    """Return whether the words are names of functions, one after the other."""
    return not words or any(
        words[:length] in _PHRASES and _are_functions(words[length:])
        for length in range(1, min(_LONGEST, len(words)) + 1)
    )


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
        parser_version=3,
    ),
    find,
)
