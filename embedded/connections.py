"""Whether the services that the settings name can be reached, said in one line when they cannot."""

from __future__ import annotations

import asyncio
import re

import psycopg

from settings import ExitCode, StartError

_CONNECT_SECONDS = 5
_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^/\s]*(@)|(\bpassword=)('[^']*'|[^\s&]+)")


def masked(url: str) -> str:
    """A connection URL without its password."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[3]}***{found[2] or ''}", url)


async def check_database(url: str) -> None:
    """Connect once.

    Raises:
        StartError: saying what is wrong, the password masked.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(url, connect_timeout=_CONNECT_SECONDS)
    except psycopg.Error as error:
        reason = (str(error).strip().splitlines() or ["no answer"])[0]
        if url.partition("?")[0].count("@") > 1:  # the reason could show the end of a password
            reason = "an @ in a user name or password is written %40"
        raise StartError(
            f"The database at {masked(url)} cannot be used (DATABASE_URL): {masked(reason)}",
            ExitCode.DATABASE,
        ) from None
    await connection.close()


def migrate(url: str) -> None:
    """Bring a database to the newest schema.

    Raises:
        StartError: if it cannot be: no permission, no space, a schema of a newer release.
    """
    from alembic.util import CommandError
    from sqlalchemy.exc import SQLAlchemyError

    from migrations.upgrade import upgrade

    try:
        upgrade(url)
    except CommandError as error:
        reason = f"its schema is not one of this release ({error})"
    except (SQLAlchemyError, psycopg.Error) as error:
        reason = masked(str(error).strip().splitlines()[0])
    else:
        return
    raise StartError(f"The database at {masked(url)} cannot be migrated: {reason}", ExitCode.DATABASE)


async def check_temporal(address: str, namespace: str) -> None:
    """Connect once, and see that the namespace is there.

    Raises:
        StartError: saying what is wrong.
    """
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
    from temporalio.client import Client
    from temporalio.service import RPCError

    request = DescribeNamespaceRequest(namespace=namespace)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            client = await Client.connect(address, namespace=namespace)
            await client.workflow_service.describe_namespace(request)
    except (RuntimeError, ValueError, TimeoutError):
        reason = "it cannot be reached; give host:port"
    except RPCError as error:
        reason = error.message
    else:
        return
    raise StartError(
        f"Temporal at {address} (TEMPORAL_ADDRESS, namespace {namespace}) cannot be used: {reason}.",
        ExitCode.TEMPORAL,
    )
