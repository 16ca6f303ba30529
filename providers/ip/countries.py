"""Country codes (ISO 3166-1 alpha-2) → English name and continent.

Other names that sources use for a country are replaced by this name, so that the sources agree.

Taken from countries-list 3.4.1 (https://github.com/annexare/Countries), MIT License, Copyright (c) 2014
Annexare Studio. Data that names a country by its code alone is completed from here. Russia, which lies on two
continents, is listed on that of its capital.
"""

from __future__ import annotations

import unicodedata
from functools import cache

from providers.sources.base import Fields

_COUNTRIES = {
    "Africa": """
        AC Ascension Island
        AO Angola
        BF Burkina Faso
        BI Burundi
        BJ Benin
        BW Botswana
        CD Democratic Republic of the Congo
        CF Central African Republic
        CG Republic of the Congo
        CI Ivory Coast
        CM Cameroon
        CV Cabo Verde
        DJ Djibouti
        DZ Algeria
        EG Egypt
        EH Western Sahara
        ER Eritrea
        ET Ethiopia
        GA Gabon
        GH Ghana
        GM Gambia
        GN Guinea
        GQ Equatorial Guinea
        GW Guinea-Bissau
        KE Kenya
        KM Comoros
        LR Liberia
        LS Lesotho
        LY Libya
        MA Morocco
        MG Madagascar
        ML Mali
        MR Mauritania
        MU Mauritius
        MW Malawi
        MZ Mozambique
        NA Namibia
        NE Niger
        NG Nigeria
        RE Reunion
        RW Rwanda
        SC Seychelles
        SD Sudan
        SH Saint Helena
        SL Sierra Leone
        SN Senegal
        SO Somalia
        SS South Sudan
        ST Sao Tome and Principe
        SZ Eswatini
        TA Tristan da Cunha
        TD Chad
        TG Togo
        TN Tunisia
        TZ Tanzania
        UG Uganda
        YT Mayotte
        ZA South Africa
        ZM Zambia
        ZW Zimbabwe
    """,
    "Antarctica": """
        AQ Antarctica
        BV Bouvet Island
        GS South Georgia and the South Sandwich Islands
        HM Heard Island and McDonald Islands
        TF French Southern Territories
    """,
    "Asia": """
        AE United Arab Emirates
        AF Afghanistan
        AM Armenia
        AZ Azerbaijan
        BD Bangladesh
        BH Bahrain
        BN Brunei
        BT Bhutan
        CC Cocos (Keeling) Islands
        CN China
        CX Christmas Island
        GE Georgia
        HK Hong Kong
        ID Indonesia
        IL Israel
        IN India
        IO British Indian Ocean Territory
        IQ Iraq
        IR Iran
        JO Jordan
        JP Japan
        KG Kyrgyzstan
        KH Cambodia
        KP North Korea
        KR South Korea
        KW Kuwait
        KZ Kazakhstan
        LA Laos
        LB Lebanon
        LK Sri Lanka
        MM Myanmar
        MN Mongolia
        MO Macao
        MV Maldives
        MY Malaysia
        NP Nepal
        OM Oman
        PH Philippines
        PK Pakistan
        PS Palestine
        QA Qatar
        SA Saudi Arabia
        SG Singapore
        SY Syria
        TH Thailand
        TJ Tajikistan
        TM Turkmenistan
        TR Türkiye
        TW Taiwan
        UZ Uzbekistan
        VN Vietnam
        YE Yemen
    """,
    "Europe": """
        RU Russia
        AD Andorra
        AL Albania
        AT Austria
        AX Aland
        BA Bosnia and Herzegovina
        BE Belgium
        BG Bulgaria
        BY Belarus
        CH Switzerland
        CY Cyprus
        CZ Czechia
        DE Germany
        DK Denmark
        EE Estonia
        ES Spain
        FI Finland
        FO Faroe Islands
        FR France
        GB United Kingdom
        GG Guernsey
        GI Gibraltar
        GR Greece
        HR Croatia
        HU Hungary
        IE Ireland
        IM Isle of Man
        IS Iceland
        IT Italy
        JE Jersey
        LI Liechtenstein
        LT Lithuania
        LU Luxembourg
        LV Latvia
        MC Monaco
        MD Moldova
        ME Montenegro
        MK North Macedonia
        MT Malta
        NL Netherlands
        NO Norway
        PL Poland
        PT Portugal
        RO Romania
        RS Serbia
        SE Sweden
        SI Slovenia
        SJ Svalbard and Jan Mayen
        SK Slovakia
        SM San Marino
        UA Ukraine
        VA Vatican City
        XK Kosovo
    """,
    "North America": """
        AG Antigua and Barbuda
        AI Anguilla
        AW Aruba
        BB Barbados
        BL Saint Barthelemy
        BM Bermuda
        BQ Bonaire
        BS Bahamas
        BZ Belize
        CA Canada
        CR Costa Rica
        CU Cuba
        CW Curacao
        DM Dominica
        DO Dominican Republic
        GD Grenada
        GL Greenland
        GP Guadeloupe
        GT Guatemala
        HN Honduras
        HT Haiti
        JM Jamaica
        KN Saint Kitts and Nevis
        KY Cayman Islands
        LC Saint Lucia
        MF Saint Martin
        MQ Martinique
        MS Montserrat
        MX Mexico
        NI Nicaragua
        PA Panama
        PM Saint Pierre and Miquelon
        PR Puerto Rico
        SV El Salvador
        SX Sint Maarten
        TC Turks and Caicos Islands
        TT Trinidad and Tobago
        US United States
        VC Saint Vincent and the Grenadines
        VG British Virgin Islands
        VI U.S. Virgin Islands
    """,
    "Oceania": """
        AS American Samoa
        AU Australia
        CK Cook Islands
        FJ Fiji
        FM Micronesia
        GU Guam
        KI Kiribati
        MH Marshall Islands
        MP Northern Mariana Islands
        NC New Caledonia
        NF Norfolk Island
        NR Nauru
        NU Niue
        NZ New Zealand
        PF French Polynesia
        PG Papua New Guinea
        PN Pitcairn Islands
        PW Palau
        SB Solomon Islands
        TK Tokelau
        TL East Timor
        TO Tonga
        TV Tuvalu
        UM U.S. Minor Outlying Islands
        VU Vanuatu
        WF Wallis and Futuna
        WS Samoa
    """,
    "South America": """
        AR Argentina
        BO Bolivia
        BR Brazil
        CL Chile
        CO Colombia
        EC Ecuador
        FK Falkland Islands
        GF French Guiana
        GY Guyana
        PE Peru
        PY Paraguay
        SR Suriname
        UY Uruguay
        VE Venezuela
    """,
}

COUNTRIES: dict[str, tuple[str, str]] = {
    line[:2]: (line[3:], continent)
    for continent, block in _COUNTRIES.items()
    for line in map(str.strip, block.strip().splitlines())
}
"""Code → (name, continent)."""

# In the short forms that `_folded` produces, without those that equal a name above.
_OTHER_NAMES = """
    AX Åland Islands
    BN Brunei Darussalam
    BO Plurinational State of Bolivia
    BQ Bonaire, Sint Eustatius and Saba; Caribbean Netherlands
    CC Cocos Islands
    CN People's Republic of China
    CD Congo, Democratic Republic of; DR Congo; Congo Kinshasa
    CG Congo; Congo Republic; Congo Brazzaville
    CI Côte d'Ivoire
    CV Cape Verde
    CZ Czech Republic
    FK Falkland Islands (Malvinas)
    FM Federated States of Micronesia
    DK Kingdom of Denmark
    GB Great Britain; United Kingdom of Great Britain and Northern Ireland; UK; England; Scotland; Wales
    HK Hong Kong SAR; Hong Kong SAR China
    IE Republic of Ireland
    IR Islamic Republic of Iran
    KP Democratic People's Republic of Korea
    KR Republic of Korea; Korea
    LA Lao People's Democratic Republic; Lao PDR
    LY Libyan Arab Jamahiriya
    MD Republic of Moldova
    MF Saint Martin (French part)
    MK Macedonia; Republic of North Macedonia; former Yugoslav Republic of Macedonia
    MM Burma
    MO Macau; Macao SAR; Macao SAR China
    NL Kingdom of the Netherlands; Holland
    PS State of Palestine; Palestinian Territory; Palestinian Territories; Occupied Palestinian Territory
    RU Russian Federation
    SH Saint Helena, Ascension and Tristan da Cunha
    SX Sint Maarten (Dutch part)
    SY Syrian Arab Republic
    SZ Swaziland
    TL Timor-Leste
    TR Turkey
    TW Republic of China; Province of China Taiwan
    TZ United Republic of Tanzania
    UM United States Minor Outlying Islands; U.S. Outlying Islands
    US United States of America; USA
    VA Holy See; Vatican; Holy See (Vatican City State)
    VE Bolivarian Republic of Venezuela
    VI United States Virgin Islands
    VN Viet Nam
"""


def country_code(name: str) -> str | None:
    """Return the code of the country called `name`, in any usual spelling; None if it is unknown."""
    return _codes().get(_fold_name(name))


def country_name(code: str | None, told: str | None = None) -> str | None:
    """Return the one name of a country.

    Args:
        code: its code, if known.
        told: the source's name for it; returned unchanged if neither the code nor this name is known.
    """
    code = code if code in COUNTRIES else country_code(told or "")
    return COUNTRIES[code][0] if code else told


def named_country(told: str | None) -> str | None:
    """Return the one name of a country given by its code or any of its names; else the text unchanged."""
    code = (told or "").upper()
    return country_name(code if code in COUNTRIES else None, told) or None


def with_names(place: Fields) -> Fields:
    """Return the fields of a place with the names for its `location.country_code`."""
    code = place.get("location.country_code")
    continent = COUNTRIES[code][1] if code in COUNTRIES else place.get("location.continent")
    name = country_name(code, place.get("location.country"))
    return place | {"location.country": name, "location.continent": continent}


@cache
def _codes() -> dict[str, str]:
    codes = {_fold_name(name): code for code, (name, _) in COUNTRIES.items()}
    for line in map(str.strip, _OTHER_NAMES.strip().splitlines()):
        codes |= {_fold_name(name): line[:2] for name in line[3:].split(";")}
    return codes


def _fold_name(name: str) -> str:
    """Return a name without accents, punctuation and articles.

    "Korea (Republic of)" becomes "republic of korea".
    """
    turned = name.endswith(("of)", "of the)"))
    first, comma, rest = name.partition(" (" if turned else ", ")
    letters = unicodedata.normalize("NFKD", f"{rest} {first}" if comma else name).casefold()
    letters = letters.replace("&", " and ").replace("ı", "i").replace("-", " ").replace("(", " ")
    words = "".join(one for one in letters if one.isalnum() or one.isspace()).split()
    return " ".join("saint" if word == "st" else word for word in words if word != "the")
