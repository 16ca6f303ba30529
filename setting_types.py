"""The types of single settings: each reads the text of the environment and checks it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, SecretStr

_MOST_WINDOWS = 4
_SHOWN = 50
_MOST_DELAYS, _LONGEST_DELAY = 20, 7 * 24 * 3600
_HOST = re.compile(r"\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")
_SOURCE_SCHEMES = ("http", "https", "dns", "tls", "whois")


@dataclass(frozen=True)
class Rate:
    """At most `requests` in any `seconds`."""

    requests: int
    seconds: int


def _hosts(value: object) -> object:
    if not isinstance(value, str):
        return value
    hosts = [part.strip() for part in value.split(",") if part.strip()]
    for host in hosts:
        if not _HOST.fullmatch(host):
            example = "such as vedette.example.com or [::1]"
            raise ValueError(f"{host!r} is no host name: give names without scheme or port, {example}, or *")
    return hosts


def _rate(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value == "off":
        return None
    match = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,5})", value)
    if match is None:
        raise ValueError("give <count>/<seconds>, such as 60/60, or off")
    return Rate(int(match[1]), int(match[2]))


def _rates(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.strip() == "off":
        return ()
    found = [re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,6})", part.strip()) for part in value.split(",")]
    rates = tuple(Rate(int(match[1]), int(match[2])) for match in found if match)
    if len(rates) < len(found) or len(rates) > _MOST_WINDOWS:
        raise ValueError(f"give 1 to {_MOST_WINDOWS} of <count>/<seconds>, such as 4/60,500/86400, or off")
    if len({rate.seconds for rate in rates}) < len(rates):
        raise ValueError("two of the windows are of the same length: give each length once")
    return rates


def _networks(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [ip_network(part.strip()) for part in value.split(",") if part.strip()]


def _delays(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        delays = tuple(float(part) for part in value.split(","))
    except ValueError:
        delays = ()
    if not 1 <= len(delays) <= _MOST_DELAYS or not all(0 < delay <= _LONGEST_DELAY for delay in delays):
        raise ValueError(f"give 1 to {_MOST_DELAYS} delays in seconds, such as 5,300,1800; none over a week")
    return delays


def _contact(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"(mailto:[^\s@]+@[^\s@]+|https://\S+|tel:\S+)", value):
        raise ValueError("give mailto:<address>, https://<page> or tel:<number>")
    return value


def _is_address(value: str, schemes: Collection[str]) -> bool:
    """Return whether it is the URL of a server, with a path at most."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:  # a port that is none, or half a pair of brackets
        return False
    is_plain = not (parts.query or parts.fragment or re.search(r"\s", value))
    return parts.scheme in schemes and bool(parts.hostname) and is_plain


def _model_address(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not _is_address(value, ("http", "https")) or urlsplit(value).username:
        raise ValueError("give the root of an OpenAI-compatible API, such as http://127.0.0.1:11434/v1")
    return value.rstrip("/")


def _public_url(value: object) -> object:
    if isinstance(value, str) and (not _is_address(value, ("http", "https")) or urlsplit(value).username):
        raise ValueError("give the address that clients use, such as https://vedette.example.com")
    return value


def _pages(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.lower() in ("0", "1", "false", "true", "off", "on", "no", "yes"):
        return value.lower() in ("1", "true", "on", "yes")
    if not _is_address(value, ("http", "https")) or urlsplit(value).username:
        raise ValueError("give 0, 1, or the address of Temporal's pages, such as http://127.0.0.1:8233")
    return value.rstrip("/")


def _source_address(value: object) -> object:
    # It may hold a password, which the message must not show.
    if isinstance(value, str) and not all(
        _is_address(part.strip(), _SOURCE_SCHEMES) for part in value.split(",")
    ):
        raise ValueError("no address of a server: give the root of its API, such as https://mirror.example")
    return value


def _check_name(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[!-~]{1,200}", value):
        found = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        raise ValueError(f"{found!r} is no name: give 1 to 200 visible ASCII characters without spaces")
    return value


def _check_token(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"[!-~]([ -~]*[!-~])?", value):
        raise ValueError("no header can carry it: give visible ASCII characters, without spaces around them")
    return value


Schedule = Annotated[tuple[float, ...], BeforeValidator(_delays)]
Hosts = Annotated[tuple[str, ...], BeforeValidator(_hosts)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_networks)]
Rates = Annotated[tuple[Rate, ...], BeforeValidator(_rates)]
Limit = Annotated[Rate | None, BeforeValidator(_rate)]
Contact = Annotated[str | None, BeforeValidator(_contact)]
ModelAddress = Annotated[str | None, BeforeValidator(_model_address)]
TemporalPages = Annotated[bool | str, BeforeValidator(_pages)]
PublicUrl = Annotated[str | None, BeforeValidator(_public_url)]
SourceAddress = Annotated[str | None, BeforeValidator(_source_address)]
Name = Annotated[str, BeforeValidator(_check_name)]
Token = Annotated[SecretStr | None, BeforeValidator(_check_token)]
