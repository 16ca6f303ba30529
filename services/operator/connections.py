"""Checks that the services in the settings are reachable, with one-line errors."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from typing import TYPE_CHECKING

import psycopg

from settings import ExitCode, Settings, StartError

if TYPE_CHECKING:
    from temporal.client import Connection

_CONNECT_SECONDS = 5
_LEAST_POSTGRES = 17  # the first release that reads the time of an id
# The start of an HTTP/2 connection: the preface, and an empty settings frame.
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
# Up to the last @: a password may contain characters that should be percent-encoded, and no part of it may be
# shown.
_PASSWORD = re.compile(r"(://[^:/@\s]*:).*(@)|(\bpassword=)('[^']*'|[^\s&]+)", re.DOTALL)
_NOT_ENCODED = re.compile(r"://[^@]*[/\s@].*@", re.DOTALL)


def mask_password(url: str) -> str:
    """Return a connection URL without its password."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[3]}***{found[2] or ''}", url)


async def check_database(url: str) -> None:
    """Connect once, and check that the server is new enough.

    Raises:
        StartError: with the reason, the password masked.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(
            url, connect_timeout=_CONNECT_SECONDS, target_session_attrs="read-write"
        )
    except psycopg.Error as error:
        reason = (str(error).strip().splitlines() or ["no answer"])[0]
        if _NOT_ENCODED.search(url.partition("?")[0]):  # the reason could show a part of a password
            reason = "an @, a / or a space in a user name or password is written %40, %2F or %20"
        raise StartError(
            f"The database at {mask_password(url)} cannot be used (DATABASE_URL): {mask_password(reason)}",
            ExitCode.DATABASE,
        ) from None
    found = connection.info.server_version // 10_000
    await connection.close()
    if found < _LEAST_POSTGRES:
        raise StartError(
            f"The database at {mask_password(url)} is Postgres {found} (DATABASE_URL): {_LEAST_POSTGRES} or"
            " newer is needed.",
            ExitCode.DATABASE,
        )


async def check_schema(url: str) -> None:
    """Check that this release works with the schema of a database.

    Raises:
        StartError: it does not; the message has the remedy.
    """
    from database import Database
    from migrations.revisions import schema_problem
    from models.installation.schema import find_schema

    async with await Database(url, name="vedette start", size=1).connect_dedicated() as connection:
        problem = schema_problem(await find_schema(connection))
    if problem:
        raise StartError(problem, ExitCode.DATABASE)


def migrate(url: str) -> None:
    """Upgrade a database to the newest schema.

    Raises:
        StartError: if that is impossible: no permission, no space, a schema of a newer release.
    """
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from migrations.upgrade import upgrade

    try:
        upgrade(url)
    except CommandError as error:
        reason = f"its schema is not one of this release ({error})"
    except (SQLAlchemyError, psycopg.Error) as error:
        reason = mask_password(str(error).strip().splitlines()[0])
    else:
        return
    raise StartError(f"The database at {mask_password(url)} cannot be migrated: {reason}", ExitCode.DATABASE)


async def check_temporal(settings: Settings) -> None:
    """Connect once to the server in the settings, and check that the namespace exists.

    Raises:
        StartError: with the reason.
    """
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.client import Client
    from temporalio.service import RPCError

    from temporal.client import connection

    options = connection(settings)
    request = DescribeNamespaceRequest(namespace=options["namespace"])
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            # Lazy, because otherwise the server's refusal of the first call is only a part of a text.
            client = await Client.connect(**options, lazy=True)
            await client.workflow_service.describe_namespace(request)
    except (RuntimeError, ValueError, TimeoutError):
        reason = await asyncio.to_thread(_why_unreachable, settings, options)
    except RPCError as error:
        reason = error.message
    else:
        return
    raise StartError(
        f"Temporal at {options['target_host']} (TEMPORAL_ADDRESS, namespace {options['namespace']}) "
        f"cannot be used: {reason}.",
        ExitCode.TEMPORAL,
    )


def _why_unreachable(settings: Settings, options: Connection) -> str:
    """Return why a plain connection fails. The SDK reports all causes in one text."""
    host, _, port = options["target_host"].rpartition(":")
    if not host or not port.isdecimal():
        return "it cannot be reached; give host:port"
    host, tls = host.strip("[]"), _context(settings) if options["tls"] else None
    try:
        with socket.create_connection((host, int(port)), _CONNECT_SECONDS) as plain:
            with tls.wrap_socket(plain, server_hostname=host) if tls else plain as stream:
                stream.sendall(_HTTP2)
                answered = stream.recv(1)
    except ssl.SSLCertVerificationError as error:
        return (
            f"its certificate is not accepted ({error.verify_message}). TEMPORAL_TLS_CA_FILE must hold the "
            "certificate of who signed it, and TEMPORAL_ADDRESS a name that stands in it"
        )
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            return "it does not speak TLS: unset TEMPORAL_TLS, or set it to 0 beside an API key"
        answered = b""
    except OSError:
        return (
            "nothing answers there. Start that server, or correct TEMPORAL_ADDRESS; without it, `vedette up` "
            "starts a server of its own"
        )
    if answered:
        return "it does not answer as Temporal does, or does not accept TEMPORAL_API_KEY"
    if tls is None:
        return "it ends the connection: set TEMPORAL_TLS=1 if it speaks TLS"
    return (
        "it ends the TLS connection. If it asks for a client certificate, TEMPORAL_TLS_CERT_FILE and "
        "TEMPORAL_TLS_KEY_FILE must hold one that it knows"
    )


def _context(settings: Settings) -> ssl.SSLContext:
    """Return a TLS context with the same trust and certificate as the SDK uses."""
    context = ssl.create_default_context(cafile=settings.temporal_tls_ca_file)
    context.set_alpn_protocols(["h2"])
    if settings.temporal_tls_cert_file is not None:
        context.load_cert_chain(settings.temporal_tls_cert_file, settings.temporal_tls_key_file)
    return context
