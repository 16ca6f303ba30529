"""Countries as company answers name them, however a source writes them: so that spellings are no conflict."""

from __future__ import annotations

from providers.ip.countries import COUNTRIES

# As Wikidata and registers also call them.
_OTHERWISE = {
    "UK": "GB",
    "Cape Verde": "CV",
    "Cote d'Ivoire": "CI",
    "Côte d'Ivoire": "CI",
    "Czech Republic": "CZ",
    "England": "GB",
    "Great Britain": "GB",
    "Hong Kong SAR": "HK",
    "Kingdom of Denmark": "DK",
    "Kingdom of the Netherlands": "NL",
    "Korea, Republic of": "KR",
    "Macau": "MO",
    "People's Republic of China": "CN",
    "Republic of China": "TW",
    "Republic of Ireland": "IE",
    "Republic of Korea": "KR",
    "Russian Federation": "RU",
    "Scotland": "GB",
    "State of Palestine": "PS",
    "Swaziland": "SZ",
    "The Bahamas": "BS",
    "The Gambia": "GM",
    "The Netherlands": "NL",
    "Timor-Leste": "TL",
    "Turkey": "TR",
    "United Kingdom of Great Britain and Northern Ireland": "GB",
    "United States of America": "US",
    "USA": "US",
    "Viet Nam": "VN",
}
_CODES = {name.casefold(): code for name, code in _OTHERWISE.items()} | {
    spelling.casefold(): code for code, (name, _) in COUNTRIES.items() for spelling in (name, code)
}


def country(told: str | None) -> str | None:
    """The English name of a country that is named by any of its names or its code; else what is given."""
    code = _CODES.get((told or "").casefold())
    return COUNTRIES[code][0] if code else told or None
