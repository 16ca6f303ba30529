"""The certificate that the domain's web server presents now, valid or not.

This connects to the domain itself, on port 443 of an address that was checked to be public;
`VEDETTE_PROVIDER_TLS_ENABLED=0` disables it. `VEDETTE_PROVIDER_TLS_BASE_URL` (`tls://192.0.2.1:443`) connects
there instead, whatever the domain.
"""

from __future__ import annotations

import asyncio
import ssl
from datetime import date
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from models.domains import Domain
from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, SourceError
from providers.sources.nameservers import addresses, choose_public, resolvers

_PORT = 443
_CLOSE_SECONDS = 0.5


async def fetch(query: Query, context: Context) -> bytes | None:
    """Shake hands and take the certificate (DER); None if the port is closed.

    Raises:
        SourceError: `skipped` for a forbidden address; `error` if the handshake fails.
    """
    domain: Domain = query.value
    place = await _place(domain, context)
    if place is None:
        return None
    context_without_checks = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context_without_checks.check_hostname = False
    context_without_checks.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(
            *place,
            ssl=context_without_checks,
            server_hostname=domain.name,
            ssl_shutdown_timeout=_CLOSE_SECONDS,
        )
    except ssl.SSLError:
        raise SourceError("error", "handshake_failed") from None
    except ConnectionRefusedError:
        return None
    except OSError:
        raise SourceError("error", "connect_failed") from None
    try:
        shown: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return shown.getpeercert(binary_form=True)
    finally:
        writer.transport.abort()


async def _place(domain: Domain, context: Context) -> tuple[str, int] | None:
    if context.base_url:
        server = urlsplit(context.base_url)
        return server.hostname or "", server.port or _PORT
    found = await addresses(resolvers(""), domain.name, context.timeout / 2)
    address = choose_public(found, context.allowed)
    return (str(address), _PORT) if address else None


def parse(raw: bytes | None) -> Fields:
    """Read a certificate."""
    if raw is None:
        return {}
    try:
        certificate = x509.load_der_x509_certificate(raw)
        issuer = certificate.issuer
    except ValueError:
        raise SourceError("bad_response", "not_a_certificate") from None
    return {
        "ssl.issuer": _name(issuer),
        "ssl.valid_from": f"{certificate.not_valid_before_utc:%Y-%m-%d}",
        "ssl.valid_to": f"{certificate.not_valid_after_utc:%Y-%m-%d}",
        "ssl.subject_alt_names": _alternatives(certificate),
    }


def _name(issuer: x509.Name) -> str | None:
    """Return the authority's common name for people: organisation and common name."""
    parts: list[str] = []
    for oid in (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME):
        found = issuer.get_attributes_for_oid(oid)
        if found and str(found[0].value) not in parts:
            parts.append(str(found[0].value))
    return " ".join(parts) or issuer.rfc4514_string() or None


def _alternatives(certificate: x509.Certificate) -> list[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    names = extension.value.get_values_for_type(x509.DNSName)
    return sorted({*names, *map(str, extension.value.get_values_for_type(x509.IPAddress))})


SOURCE = RemoteSource(
    RemoteSpec(
        name="tls",
        kind="domain",
        fields=frozenset({"ssl.issuer", "ssl.valid_from", "ssl.valid_to", "ssl.subject_alt_names"}),
        licence="none: the certificate is public",
        commercial="yes",
        attribution="the domain's own web server",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc5280", date(2026, 11, 22)),
        timeout=5,
        ttl=3600,
        negative_ttl=600,
        active=True,
    ),
    fetch,
    parse,
)
