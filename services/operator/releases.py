"""The operator's choice of the builds that take work."""

from __future__ import annotations

from models.errors import FieldError, Invalid
from models.runs import builds
from models.runs.builds import WHOLE_SHARE, BuildState, BuildStatus
from services.operator.administration import open_database


async def list_builds(database_url: str) -> list[BuildStatus]:
    """Return the newest builds with their workers, the newest first."""
    async with open_database(database_url) as database, database.connection() as connection:
        return await builds.list_builds(connection)


async def set_state(
    database_url: str, name: str, state: BuildState, share: int = WHOLE_SHARE
) -> list[BuildStatus]:
    """Admit or drain a build; return all builds afterwards.

    Raises:
        Invalid: no worker of this build has ever started here.
    """
    async with open_database(database_url) as database, database.connection() as connection:
        if not await builds.set_state(connection, name, state, share):
            known = ", ".join(one.name for one in await builds.list_builds(connection))
            message = f"No worker of the build {name!r} has started here. Known builds: {known}."
            raise Invalid([FieldError("/build", "unknown_build", message)])
        return await builds.list_builds(connection)
