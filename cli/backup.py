"""`vedette backup` and `vedette restore`."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.connecting import connected_settings, read_settings
from cli.errors import BadInput
from cli.printing import Json, print_data

if TYPE_CHECKING:
    from services.operator.backup import Manifest

_PassphraseFile = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="A file whose first line is the passphrase of the root key."),
]


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write the backup.")],
    passphrase_file: _PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Write the database to a file, while the service goes on.

    The root key is not in it, unless a passphrase to seal it with is given: keep the two apart.
    """
    from services.operator.backup import back_up

    settings = connected_settings()
    passphrase = _read_passphrase(passphrase_file)
    done = asyncio.run(back_up(settings, version("vedette"), file, _folders(), passphrase))
    size = f"{done.dump_bytes / 1024**2:,.1f} MiB"
    key = (
        "The root key is in it, sealed."
        if done.has_key
        else "The root key is not in it: keep a copy elsewhere."
    )
    _print(
        done,
        f"{file} has the database as it was at {done.made_at:%Y-%m-%d %H:%M:%S} UTC ({size}). {key}",
        as_json,
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `vedette backup` has written.")],
    passphrase_file: _PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Bring a backup into an empty database: that of DATABASE_URL, or the built-in one of the data folder."""
    from embedded.lone_database import lone_database
    from services.operator.backup import check_backup
    from services.operator.backup import restore as bring_back

    settings = read_settings()
    checked = check_backup(settings, file, _read_passphrase(passphrase_file))

    async def bring_into_built_in() -> None:
        async with lone_database(settings) as started:
            await bring_back(started, checked, _folders())

    if settings.database_url is None:
        asyncio.run(bring_into_built_in())
    else:
        asyncio.run(bring_back(connected_settings(), checked, _folders()))
    made_at = f"{checked.manifest.made_at:%Y-%m-%d %H:%M:%S}"
    text = (
        f"The database is as it was at {made_at} UTC. Start the service: the runs that were under way go on."
    )
    _print(checked.manifest, text, as_json)


def _print(done: Manifest, text: str, as_json: bool) -> None:
    print_data(done.model_dump(mode="json"), text, as_json)


def _folders() -> list[Path]:
    """Return the folder of the built-in programs, where there are any for this platform."""
    from embedded.cluster import binaries
    from settings import StartError

    try:
        return [binaries()]
    except StartError:
        return []


def _read_passphrase(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--passphrase-file: {file} cannot be read: {error}.") from None
    if not lines or not lines[0]:
        raise BadInput(f"--passphrase-file: the first line of {file} is empty.")
    return lines[0]
