"""The conversion of connection errors into ours."""

from __future__ import annotations

import errno

import aiohttp

from outbound.errors import (
    BadResponse,
    ConnectFailed,
    ForbiddenAddress,
    InvalidRequest,
    NameNotResolved,
    OutboundError,
    TlsFailed,
)


def error_for(error: Exception, host: str | None) -> OutboundError:
    """Return our error for one of aiohttp's.

    The message may reach a user: it names the host of the URL, but no address that the host resolved to.

    Args:
        error: aiohttp's error.
        host: of the URL.
    """
    match error:
        case aiohttp.ClientConnectorDNSError():
            return NameNotResolved("The host name has no address.")
        case aiohttp.ClientConnectorCertificateError():
            return TlsFailed(f"The server's certificate is not valid: {_reason(error.certificate_error)}.")
        case aiohttp.ClientConnectorSSLError():
            return TlsFailed("The TLS handshake failed.")
        case aiohttp.InvalidURL():
            return ForbiddenAddress("The URL's host is an address in a spelling that is not accepted.")
        case aiohttp.ClientConnectorError() | aiohttp.ClientOSError() | aiohttp.ServerDisconnectedError():
            return ConnectFailed(f"The connection to {host} {_broken(error)}.")
        case aiohttp.ClientPayloadError() | aiohttp.ClientResponseError():
            return BadResponse("The answer breaks off or is not HTTP.")
        case ValueError():
            return InvalidRequest("The request cannot be sent as it is.")
        case _:
            return ConnectFailed(f"The connection to {host} {_broken(error)}.")


_BROKEN = {
    errno.ECONNREFUSED: "was refused",
    errno.ECONNRESET: "was reset",
    errno.EPIPE: "was reset",
    errno.ETIMEDOUT: "timed out",
    errno.EHOSTUNREACH: "failed: no network leads there",
    errno.ENETUNREACH: "failed: no network leads there",
}


def _broken(error: Exception) -> str:
    """Return a phrase for a broken connection."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "was closed without an answer"
    return _BROKEN.get(getattr(error, "errno", None) or 0, "failed")


def _reason(error: Exception) -> str:
    return getattr(error, "verify_message", "") or "it does not verify"
