"""The cookie of a browser's session: its name, and the proof that our own page sends a request with it."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request, Response

from api.problems import Problem
from models.accounts.sessions import Cookie

_SECURE_NAME, _PLAIN_NAME = "__Host-vedette", "vedette"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def read_cookie(header: str) -> str | None:
    """Return our cookie's value in a `Cookie` header.

    Other services on this machine set cookies of any form, over which the standard library's parser
    gives up.
    """
    pairs = (one.partition("=") for one in header.split(";"))
    found = {name.strip(): value.strip() for name, _, value in pairs}
    return found.get(_SECURE_NAME) or found.get(_PLAIN_NAME)


def is_kept_secure(request: Request, address: str) -> bool:
    """Return whether browsers keep a `Secure` cookie of this request's answer.

    They do on https, and on this machine. On plain http in a network nothing is secure: the cookie goes
    without, and the sign-in page says so.

    Args:
        request: the request.
        address: the service's address as clients use it.
    """
    return address.startswith("https://") or (request.url.hostname or "") in _LOOPBACK


def set_cookie(response: Response, cookie: Cookie, *, secure: bool) -> None:
    """Set the cookie of a new session."""
    response.set_cookie(
        _SECURE_NAME if secure else _PLAIN_NAME, cookie.value, expires=cookie.expires_at, path="/",
        secure=secure, httponly=True, samesite="strict",
    )  # fmt: skip


def delete_cookie(response: Response, address: str) -> None:
    """Delete the cookie; on https browsers then also drop what they have kept of our pages."""
    for name in (_SECURE_NAME, _PLAIN_NAME):
        response.delete_cookie(name, path="/", secure=name == _SECURE_NAME, httponly=True, samesite="strict")
    if address.startswith("https://"):
        response.headers["Clear-Site-Data"] = '"cache", "storage"'


def refuse_foreign(request: Request, address: str) -> None:
    """Refuse a request that a page of another site, port or scheme sent with our cookie.

    `SameSite` alone does not: another service on this machine is of the same site.

    Args:
        request: the request.
        address: the service's address as clients use it.

    Raises:
        Problem: 403 `cross_site_request`.
    """
    site = request.headers.get("sec-fetch-site")
    reads = request.method in _READING
    if site is not None:
        if site == "same-origin" or (reads and site == "none"):
            return
        raise Problem(403, "cross_site_request", "Another site sent this request with your session.")
    origin = request.headers.get("origin")
    if (reads and origin is None) or origin == _origin_of(address):
        return
    raise Problem(
        403,
        "cross_site_request",
        f"This request does not come from a page of {_origin_of(address)}. If that is not the address that"
        " browsers use, the operator sets VEDETTE_PUBLIC_URL to it.",
    )


def _origin_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
