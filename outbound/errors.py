"""The errors of outgoing requests that bring no usable answer."""

from __future__ import annotations


class OutboundError(Exception):
    """A request that brought no usable answer.

    Attributes:
        code: stable, snake_case.
        retryable: whether the same request may well succeed later.
    """

    code = "outbound_error"
    retryable = False


class InvalidRequest(OutboundError):
    """The URL or a header cannot be sent as it is."""

    code = "invalid_request"


class ForbiddenHeader(OutboundError):
    """A header describes the connection, which the client controls, not the user."""

    code = "forbidden_header"


class ForbiddenAddress(OutboundError):
    """The URL leads to an address or port that only the operator may allow."""

    code = "forbidden_address"


class NameNotResolved(OutboundError):
    """The host name has no address, or no name server answered."""

    code = "dns_failed"
    retryable = True


class ConnectFailed(OutboundError):
    """No connection, or it broke before an answer came."""

    code = "connect_failed"
    retryable = True


class TlsFailed(OutboundError):
    """The TLS handshake failed: most often the certificate is expired or for another name."""

    code = "tls_failed"
    retryable = True


class TimedOut(OutboundError):
    """The whole exchange exceeded its timeout."""

    code = "timeout"
    retryable = True


class TooLarge(OutboundError):
    """The answer has more bytes, raw or decompressed, than the caller accepts."""

    code = "too_large"


class TooManyRedirects(OutboundError):
    """More redirects than the caller follows."""

    code = "too_many_redirects"


class BadResponse(OutboundError):
    """The response is not HTTP, breaks off, or has an encoding that was not requested."""

    code = "bad_response"
    retryable = True
