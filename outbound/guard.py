"""The guard of URLs, addresses and headers that a user chose.

Such a URL must not reach what only this machine or its network can reach. The guard therefore acts where the
connection is made, not where the URL is read: it checks every answer of the resolver, and then the very
address before each connection. That covers unusual spellings, redirects, and names that change their address
between two resolutions. `check_url` only helps to reject early what is known without resolving a name.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from outbound.errors import ForbiddenAddress, ForbiddenHeader, InvalidRequest, OutboundError

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]

_DNS_THREADS = 32
_RECEIVE_BYTES = 32 * 1024
_SETTING = "VEDETTE_ALLOW_PRIVATE_NETWORKS"

# Ranges that `is_global` calls global, but that lead inside or to no single host: translations and tunnels
# that carry an IPv4 address (IPv4-compatible and -translated, NAT64, Teredo, 6to4), old site-local, SRv6,
# multicast, and the rest of 192.0.0.0/24.
_FORBIDDEN = {
    4: [ip_network(network) for network in "192.0.0.0/24 192.88.99.0/24 224.0.0.0/4".split()],
    6: [
        ip_network(network)
        for network in (
            "::/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2002::/16 3fff::/20 "
            "5f00::/16 fec0::/10 ff00::/8"
        ).split()
    ],
}
# The argument of aiohttp's socket factories: family, kind, protocol, canonical name, (address, port, …).
_Target = tuple[int, int, int, str, tuple[Any, ...]]
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,252}[a-z0-9_.])?", re.IGNORECASE)
# Headers that describe the connection and where a message ends. A user must not set them: with another Host,
# a checked address would answer for another site, and a wrong length would hide a second request.
_CONNECTION_HEADERS = frozenset(
    "connection content-length expect host keep-alive proxy-authenticate proxy-authorization proxy-connection"
    " te trailer transfer-encoding upgrade".split()
)
# The number of parsed URLs that are kept, and the length of the longest.
_KEPT_URLS, _KEPT_CHARACTERS = 1024, 1024
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")


def is_onion(name: str) -> bool:
    """Return whether it is a name of Tor's, which must never be asked of DNS (RFC 7686)."""
    return f".{name}".lower().rstrip(".").endswith(".onion")


@dataclass(frozen=True)
class Refusal:
    """The rejection of a URL or a header: a stable code, and a message with the remedy."""

    code: str
    message: str


def forbidden_address(address: Address, allowed: Networks = ()) -> bool:
    """Return whether user-chosen URLs must not reach `address`.

    Args:
        address: an address; an IPv4 address mapped into IPv6 counts as the IPv4 address.
        allowed: networks that the operator has opened.
    """
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in allowed):
        return False
    return not address.is_global or any(address in network for network in _FORBIDDEN[address.version])


def parse_url(url: str, allowed: Networks = ()) -> URL:
    """Parse and check a URL.

    Raises:
        InvalidRequest: if it is not an http or https URL with a host, or has credentials in it.
        ForbiddenAddress: if its port or its literal address is forbidden.
    """
    parse = _parse_url_once if len(url) <= _KEPT_CHARACTERS else _parse_url
    return parse(url, tuple(allowed))


def _parse_url(url: str, allowed: tuple[IPv4Network | IPv6Network, ...]) -> URL:
    if _UNSAFE.search(url):
        raise InvalidRequest("The URL has spaces, control characters or backslashes; percent-encode them.")
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError:
        raise InvalidRequest("This is not a URL; give one such as https://example.com/hook.") from None
    if parsed.scheme not in ("http", "https") or not host or port is None:
        raise InvalidRequest("The URL must start with http:// or https:// and name a host.")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise InvalidRequest("Credentials do not belong in the URL; send an Authorization header.")
    _check_port(port)
    address = _literal(host)
    if address is not None:
        _check_address(address, allowed)
        if not _is_address(host):
            # It would be stored, and each call would fail: the client refuses these spellings, too.
            raise InvalidRequest("Write the host's address in its usual form, such as 93.184.215.14.")
    elif not _NAME.fullmatch(host) or ".." in host:
        raise InvalidRequest("The URL's host is neither a name nor an address.")
    return parsed


# Most calls of a process go to few URLs, and the outcome depends on nothing else.
_parse_url_once = lru_cache(_KEPT_URLS)(_parse_url)


def check_header(name: str) -> Refusal | None:
    """Return why users must not set the header `name` (code `forbidden_header`); None if they may."""
    known = name.lower()
    if known not in _CONNECTION_HEADERS:
        return None
    message = f"The header {known} describes the connection, which is not yours to say: leave it out."
    return Refusal(ForbiddenHeader.code, message)


def check_header_name(name: str) -> Refusal | None:
    """Return why HTTP forbids a header of this name, with the code `invalid_format`; None if it does not."""
    if _HEADER_NAME.fullmatch(name):
        return None
    return Refusal("invalid_format", "The name of a header has letters, digits and !#$%&'*+-.^_`|~ only.")


def check_header_value(value: str) -> Refusal | None:
    """Return why HTTP forbids a header of this value, with the code `invalid_format`; None if it does not."""
    if _HEADER_VALUE.fullmatch(value):
        return None
    return Refusal("invalid_format", "The value of a header has no line breaks or other control characters.")


def check_headers(headers: Mapping[str, str]) -> None:
    """Check that headers may be sent.

    Raises:
        InvalidRequest: if HTTP forbids one of them.
        ForbiddenHeader: if the user must not set one.
    """
    for name, value in headers.items():
        if refusal := check_header_name(name) or check_header_value(value):
            raise InvalidRequest(refusal.message)
        if refusal := check_header(name):
            raise ForbiddenHeader(refusal.message)


def check_url(url: str, allowed: Networks = ()) -> Refusal | None:
    """Return why `url` can never be called, as far as known without resolving its name; else None.

    Args:
        url: a URL that a user chose.
        allowed: `settings.allow_private_networks`.

    Returns:
        A refusal with the code `invalid_url` or `forbidden_address`.
    """
    try:
        parse_url(url, allowed)
    except OutboundError as error:
        return Refusal("invalid_url" if isinstance(error, InvalidRequest) else error.code, str(error))
    return None


class SystemResolver(AbstractResolver):
    """The system's resolver in separate threads, because a hanging name server must not stop other work."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_DNS_THREADS, thread_name_prefix="resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve `host` like other programs on this machine, with `/etc/hosts`, but never an onion name.

        Raises:
            OSError: if there is no address.
        """
        if is_onion(host):
            raise socket.gaierror(socket.EAI_NONAME, "onion names have no address")
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        )
        return [
            ResolveResult(
                hostname=host, host=str(name[0]), port=port, family=answered, proto=protocol, flags=0
            )
            for answered, _, protocol, _, name in found
        ]

    async def close(self) -> None:
        """Release the threads without waiting for hanging ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class GuardedResolver(AbstractResolver):
    """Rejects a name if any of its addresses is forbidden, so that none can be picked by chance."""

    def __init__(self, resolver: AbstractResolver, allowed: Networks) -> None:
        self._resolver = resolver
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve `host`.

        Raises:
            ForbiddenAddress: if one of its addresses is forbidden.
        """
        answers = await self._resolver.resolve(host, port, family)
        for answer in answers:
            _check_address(_address(answer["host"]), self._allowed)
        return answers

    async def close(self) -> None:
        """Leave the inner resolver open, because it is shared."""


def guarded_sockets(allowed: Networks) -> Callable[[_Target], socket.socket]:
    """Return a socket factory for aiohttp's connector, which checks the address before each connect."""

    def make(target: _Target) -> socket.socket:
        family, kind, protocol, _, (host, port, *_) = target
        _check_port(int(port))
        _check_address(_address(str(host)), allowed)
        made = socket.socket(family=family, type=kind, proto=protocol)
        # Bounds the data buffered from each of hundreds of servers that are not being read.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        return made

    return make


def _check_port(port: int) -> None:
    if port not in (80, 443) and port < 1024:
        raise ForbiddenAddress("Only the ports 80, 443 and 1024 to 65535 are allowed.")


def _check_address(address: Address, allowed: Networks) -> None:
    # The message hides the address of the name; otherwise anyone could enumerate a private network.
    if forbidden_address(address, allowed):
        raise ForbiddenAddress(f"The host is not at a public address; {_SETTING} can open its network.")


def _address(host: str) -> Address:
    return ip_address(host.partition("%")[0])


def _literal(host: str) -> Address | None:
    """Return the address that `host` spells, in any spelling that the C library's `inet_aton` accepts."""
    host = host.rstrip(".")
    if _is_address(host):
        return _address(host)
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def _is_address(host: str) -> bool:
    try:
        _address(host)
    except ValueError:
        return False
    return True
