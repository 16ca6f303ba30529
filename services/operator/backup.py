"""Backups: a dump of the database and a manifest in one file, and the way back into an empty database.

The file is a ZIP archive with `database.dump` (pg_dump's custom format), `manifest.json` and, if it was asked
for, `secret.key`, sealed by a passphrase. Without the root key nobody can open what the dump holds sealed.
Temporal's data is not needed: unfinished runs go on from their rows.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel, ValidationError

from database import Database
from migrations.revisions import knows_revision
from models.installation import backups, root_key, schema
from sealing import Keyring, root_keys
from services.operator.connections import mask_password, migrate
from settings import ExitCode, Settings, StartError

_FORMAT = 1
_DUMP, _MANIFEST, _KEY = "database.dump", "manifest.json", "secret.key"
_CHUNK = 1024 * 1024
_SALT_BYTES, _NONCE_BYTES = 16, 12
LEAST_PASSPHRASE = 12
"""The fewest characters of a passphrase."""


class Manifest(BaseModel):
    """The description of a backup.

    Attributes:
        format: of the archive.
        release: of vedette, that made it.
        revision: of the database's schema.
        postgres: the major version of the server.
        made_at: when the dump began; what was committed later is not in it.
        fingerprints: of the root keys, newest first; see `Keyring.fingerprints`.
        has_key: whether the root key is in the archive, sealed.
        dump_bytes: the size of the dump.
        dump_sha256: its checksum, in hexadecimal digits.
    """

    format: int = _FORMAT
    release: str
    revision: str
    postgres: int
    made_at: datetime
    fingerprints: list[str]
    has_key: bool
    dump_bytes: int = 0
    dump_sha256: str = ""


class Programs(NamedTuple):
    """Postgres' client programs: the folder that holds them, and their major version."""

    folder: Path
    major: int


class Checked(NamedTuple):
    """A backup that can be restored: its file, what it says of itself, and the root keys to store, if any."""

    source: Path
    manifest: Manifest
    keys: str | None


class BackupError(StartError):
    """A backup that cannot be made or restored; nothing was changed."""

    def __init__(self, message: str, exit_code: ExitCode = ExitCode.DATA) -> None:
        super().__init__(message, exit_code)


def find_programs(server: int, folders: Sequence[Path]) -> Programs:
    """Find `pg_dump` and `pg_restore` of the server's major version, or else of the next newer one.

    Args:
        server: the major version of the server.
        folders: to look into, before those of `PATH`.

    Raises:
        BackupError: there are none.
    """
    found = shutil.which("pg_dump")
    places = [*folders, *([Path(found).parent] if found else [])]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    fitting: list[Programs] = []
    for place in places:
        if (place / "pg_dump").exists() and (place / "pg_restore").exists():
            said = subprocess.run([place / "pg_dump", "--version"], capture_output=True, text=True).stdout
            if (version := re.search(r"\) (\d+)", said)) and int(version[1]) >= server:
                fitting.append(Programs(place, int(version[1])))
    if not fitting:
        raise BackupError(
            f"The server is Postgres {server}, and no pg_dump of version {server} or newer was found on this"
            f" machine. Install it (on Debian: postgresql-client-{server}), or run this where it is."
        )
    return min(fitting, key=lambda programs: programs.major)


async def back_up(
    settings: Settings, release: str, target: Path, folders: Sequence[Path], passphrase: str | None
) -> Manifest:
    """Write a backup of the database as it is at one moment; the service may go on meanwhile.

    Args:
        settings: with the database and its root key.
        release: of this code.
        target: the file, which is written whole or not at all.
        folders: with programs of Postgres, see `find_programs`.
        passphrase: puts the root key into the archive, sealed; None leaves it out.

    Raises:
        StartError: nothing was written.
    """
    url = _url_of(settings)
    if passphrase is not None:
        _check_passphrase(passphrase)
    # The file that a link leads to is written, and never a device or a pipe replaced.
    target = target.resolve()
    if target.exists() and not target.is_file():
        raise BackupError(f"{target} is no file. Name a file, and send it on from there.")
    async with await Database(url, name="vedette backup", size=1).connect_dedicated() as connection:
        server = connection.info.server_version // 10_000
        found = await schema.find_schema(connection)
        keyring = await root_key.open_keyring(connection, settings)
    if found is None:
        raise BackupError(f"The database at {mask_password(url)} holds no installation.", ExitCode.DATABASE)
    manifest = Manifest(
        release=release,
        revision=found.revision,
        postgres=server,
        made_at=datetime.now(UTC),
        fingerprints=keyring.fingerprints,
        has_key=passphrase is not None,
    )
    programs = find_programs(server, folders)
    keys = None
    if passphrase is not None:
        keys = _seal("\n".join(root_keys(settings, sealed_data_exists=True)), passphrase)
    try:
        manifest = await asyncio.to_thread(_write, target, manifest, programs, url, keys)
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror}.") from None
    async with await Database(url, name="vedette backup", size=1).connect_dedicated() as connection:
        await backups.note(connection, manifest.made_at)
    return manifest


def _write(target: Path, manifest: Manifest, programs: Programs, url: str, keys: bytes | None) -> Manifest:
    # Another backup to the same file, at the same moment, has a staging file of its own.
    descriptor, staging = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                with archive.open(_DUMP, "w", force_zip64=True) as member:
                    size, checksum = _dump(programs, url, member)
                manifest = manifest.model_copy(update={"dump_bytes": size, "dump_sha256": checksum})
                if keys is not None:
                    archive.writestr(_KEY, keys)
                archive.writestr(_MANIFEST, manifest.model_dump_json(indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(staging, target)
    finally:
        Path(staging).unlink(missing_ok=True)
    return manifest


def _dump(programs: Programs, url: str, member: IO[bytes]) -> tuple[int, str]:
    """Write a dump; return its size and its checksum."""
    words = ["--format=custom", "--no-owner", "--no-privileges"]
    with _program(programs, "pg_dump", url, words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        size, checksum = _copy(process.stdout, member)
        _expect_success("pg_dump", process)
    return size, checksum


def check_backup(settings: Settings, source: Path, passphrase: str | None) -> Checked:
    """See that a backup is whole, and that its root key is here or in it.

    Args:
        settings: with the root key, unless the backup has it.
        source: the file.
        passphrase: opens the root key in it.

    Raises:
        BackupError: it is damaged, of a newer release, or sealed with another key.
    """
    try:
        archive = zipfile.ZipFile(source)
    except (OSError, zipfile.BadZipFile) as error:
        raise BackupError(f"{source} is no backup, or not a whole one: {error}.") from None
    with archive:
        manifest = _read_manifest(source, archive)
        _check_dump(source, archive, manifest)
        return Checked(source, manifest, _find_keys(settings, source, archive, manifest, passphrase))


async def restore(settings: Settings, checked: Checked, folders: Sequence[Path]) -> None:
    """Bring a backup into an empty database, and the database to the schema of this release.

    Args:
        settings: with the database.
        checked: the backup. Where it has the root key, that goes into the data folder.
        folders: with programs of Postgres, see `find_programs`.

    Raises:
        StartError: the database is in use, or does not take the dump. It was not changed.
    """
    url = _url_of(settings)
    async with await Database(url, name="vedette restore", size=1).connect_dedicated() as connection:
        server = connection.info.server_version // 10_000
        if await schema.find_schema(connection) is not None:
            raise BackupError(
                f"The database at {mask_password(url)} holds an installation already. A backup is restored"
                " into an empty one: name one in DATABASE_URL, or an empty data folder in VEDETTE_DATA.",
                ExitCode.DATABASE,
            )
    programs = find_programs(max(server, checked.manifest.postgres), folders)
    await asyncio.to_thread(_load, programs, url, checked.source)
    if checked.keys is not None:
        _keep_keys(settings.data / "secret.key", checked.keys)
    await asyncio.to_thread(migrate, url)
    async with await Database(url, name="vedette restore", size=1).connect_dedicated() as connection:
        await root_key.open_keyring(connection, settings)


def _read_manifest(source: Path, archive: zipfile.ZipFile) -> Manifest:
    try:
        manifest = Manifest.model_validate_json(archive.read(_MANIFEST))
    except (KeyError, ValidationError, zipfile.BadZipFile):
        raise BackupError(f"{source} is no backup of vedette: it has no readable {_MANIFEST}.") from None
    if manifest.format != _FORMAT or not knows_revision(manifest.revision):
        raise BackupError(
            f"{source} was made by release {manifest.release} (schema {manifest.revision}), which is newer"
            " than this one. Restore it with that release."
        )
    return manifest


def _check_dump(source: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
    try:
        with archive.open(_DUMP) as member:
            found = _copy(member, None)
    except (KeyError, zipfile.BadZipFile):
        found = None
    if found != (manifest.dump_bytes, manifest.dump_sha256):
        raise BackupError(
            f"{source} is damaged: its dump is not the one that was written. Use another backup."
        )


def _find_keys(
    settings: Settings, source: Path, archive: zipfile.ZipFile, manifest: Manifest, passphrase: str | None
) -> str | None:
    """Return the keys to put into the data folder; None where the settings have them."""
    if passphrase is not None:
        if not manifest.has_key:
            raise BackupError(f"{source} holds no root key: leave the passphrase out.", ExitCode.SECRET_KEY)
        opened = _open(archive.read(_KEY), passphrase)
        if opened is None:
            raise BackupError("The passphrase does not open the root key.", ExitCode.SECRET_KEY)
        path = settings.data / "secret.key"
        if settings.secret_key is None and not path.exists():
            return opened
    needed = ", ".join(manifest.fingerprints)
    try:
        ring = Keyring(root_keys(settings, sealed_data_exists=True))
    except StartError:
        where = " The backup has it too: name the file of its passphrase." if manifest.has_key else ""
        raise BackupError(
            f"The root key that {source} was sealed with is missing (fingerprint {needed}).\nPut it into"
            f" {settings.data / 'secret.key'}, or set VEDETTE_SECRET_KEY.{where}",
            ExitCode.SECRET_KEY,
        ) from None
    if not set(manifest.fingerprints) <= set(ring.fingerprints):
        raise BackupError(
            f"The root key here is another one than the backup was sealed with (fingerprint {needed}). Put"
            " that one in its place.",
            ExitCode.SECRET_KEY,
        )
    return None


def _load(programs: Programs, url: str, source: Path) -> None:
    """Load the dump in one transaction, so that a failure leaves the database empty."""
    words = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    with (
        zipfile.ZipFile(source) as archive,
        archive.open(_DUMP) as member,
        _program(programs, "pg_restore", url, words, stdin=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        try:
            _copy(member, process.stdin)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended early: what it has written says why
        _expect_success("pg_restore", process)


def _program(
    programs: Programs,
    name: str,
    url: str,
    words: list[str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program of Postgres; its password goes by the environment, which no list of processes shows."""
    options = conninfo_to_dict(url)
    password = options.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    line = [str(programs.folder / name), *words, f"--dbname={make_conninfo('', **options)}"]
    return subprocess.Popen(line, env=environment, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)


def _expect_success(name: str, process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace").strip()
    if process.wait() != 0:
        raise BackupError(f"{name} failed: {mask_password(said) or 'it said nothing'}", ExitCode.DATABASE)


def _copy(source: IO[bytes], target: IO[bytes] | None) -> tuple[int, str]:
    """Copy a file, or only read it; return its size and its checksum."""
    size, checksum = 0, hashlib.sha256()
    while chunk := source.read(_CHUNK):
        size += len(chunk)
        checksum.update(chunk)
        if target is not None:
            target.write(chunk)
    return size, checksum.hexdigest()


def _check_passphrase(passphrase: str) -> None:
    if len(passphrase) < LEAST_PASSPHRASE:
        raise BackupError(
            f"The passphrase has {len(passphrase)} characters; it needs {LEAST_PASSPHRASE}.",
            ExitCode.SECRET_KEY,
        )


def _seal(text: str, passphrase: str) -> bytes:
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    return salt + nonce + AESGCM(_derive(passphrase, salt)).encrypt(nonce, text.encode(), None)


def _open(sealed: bytes, passphrase: str) -> str | None:
    salt, rest = sealed[:_SALT_BYTES], sealed[_SALT_BYTES:]
    try:
        return (
            AESGCM(_derive(passphrase, salt)).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], None).decode()
        )
    except (InvalidTag, ValueError):
        return None


def _derive(passphrase: str, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(passphrase.encode())


def _keep_keys(path: Path, keys: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(keys + "\n")
        file.flush()
        os.fsync(file.fileno())


def _url_of(settings: Settings) -> str:
    assert settings.database_url is not None
    return settings.database_url.get_secret_value()
