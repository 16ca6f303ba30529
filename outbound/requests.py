"""Requests of users' choice, and the requests to which the redirects of their answers lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from yarl import URL

from outbound import chain
from outbound.errors import BadResponse
from outbound.guard import Networks, check_headers, parse_url
from outbound.response import Answer

MAX_REDIRECTS = 5
MAX_BYTES = 1024 * 1024
"""The most bytes of an answer, unless its request says otherwise."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that are kept on a redirect to another origin. Any other header may be a credential.
_HARMLESS_HEADERS = frozenset(
    {"accept", "accept-language", "content-type", "user-agent", chain.HEADER.lower()}
)


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request to a URL that a user chose.

    Attributes:
        method: the HTTP method.
        url: an absolute http or https URL.
        headers: sent unchanged, except for Accept-Encoding, which the client sets.
        headers_at_start: returns further headers when the call begins, such as a signature with the time.
        body: sent unchanged.
        timeout: seconds for the whole exchange with its redirects, from its start; waiting for room is not
            counted.
        max_bytes: the most bytes of the decompressed body of the answer.
        truncate: cut a longer body instead of raising `TooLarge`. A body that breaks off, is unreadable or
            late is left empty, and the status is the answer.
        follow_redirects: the most redirects, at most 5. With 0 the redirect itself is the answer. Each hop is
            guarded; to another origin only harmless headers are sent.
        owner: the owner of the call.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    headers_at_start: Callable[[], Mapping[str, str]] | None = None
    body: bytes | None = None
    timeout: float = 15
    max_bytes: int = MAX_BYTES
    truncate: bool = False
    follow_redirects: int = 0
    owner: str = ""


class Hop(NamedTuple):
    """One exchange of a call: the first one, or that after a redirect."""

    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def lacks_type(self) -> bool:
        """Return whether its body has no content type."""
        return self.body is not None and not any(name.lower() == "content-type" for name in self.headers)


def build_first_hop(request: OutgoingRequest, allowed: Networks) -> Hop:
    """Return the first exchange of a call.

    Raises:
        OutboundError: its URL or a header is refused.
    """
    url = parse_url(request.url, allowed)
    check_headers(request.headers)
    headers = {name: value for name, value in request.headers.items() if name.lower() != "accept-encoding"}
    return Hop(request.method, url, headers, request.body)


def find_redirect(answer: Answer) -> str | None:
    """Return the location to which an answer redirects; None if it does not."""
    return answer.headers.get("location") or None if answer.status in _REDIRECTS else None


def follow_redirect(hop: Hop, status: int, location: str, allowed: Networks) -> Hop:
    """Return the exchange that follows a redirect (RFC 9110, section 15.4).

    Raises:
        OutboundError: the location is no URL, or is refused.
    """
    try:
        joined = hop.url.join(URL(location))
    except ValueError:
        raise BadResponse("The redirect does not lead to a URL.") from None
    url = parse_url(str(joined), allowed)
    method, headers, body = hop.method, hop.headers, hop.body
    if status == 303 or (status in (301, 302) and method.upper() == "POST"):
        method, body = "HEAD" if method.upper() == "HEAD" else "GET", None
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    if url.origin() != hop.url.origin():
        headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS_HEADERS}
    return Hop(method, url, headers, body)
