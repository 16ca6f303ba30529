"""What can become of an outgoing request that brings no usable answer."""

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
    """A header says something of the connection, which is not its sender's."""

    code = "forbidden_header"


class ForbiddenAddress(OutboundError):
    """The URL leads to an address or port that only the operator may open."""

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
    """The TLS handshake failed: most often a certificate that is expired or of another name."""

    code = "tls_failed"
    retryable = True


class TimedOut(OutboundError):
    """The whole exchange took longer than it may."""

    code = "timeout"
    retryable = True


class TooLarge(OutboundError):
    """The answer has more bytes, raw or decompressed, than the caller accepts."""

    code = "too_large"


class TooManyRedirects(OutboundError):
    """More redirects than the caller follows."""

    code = "too_many_redirects"


class BadResponse(OutboundError):
    """What came back is not HTTP, breaks off, or is encoded as nobody asked."""

    code = "bad_response"
    retryable = True
