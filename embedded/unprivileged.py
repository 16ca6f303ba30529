"""The unprivileged user of the stack's parts when root starts it, and its access to code and data.

Only the data folder changes its permissions. Files where the user cannot pass, such as a checkout or a Python
below /root, are reached through descriptors: `/proc/self/fd/<n>` leads into a folder that is held open,
whatever lies above it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from embedded.cluster import BINARY_CACHES, elsewhere, succeeds
from embedded.process import NO_HOME, as_user
from process import DOWNLOADS, HELD_FOLDERS
from settings import ExitCode, StartError, with_secrets_of_files

_CODE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Program:
    """A start of Python with a part of this code, for `Child`."""

    command: list[str]
    executable: Path | None = None
    environment: dict[str, str] = field(default_factory=dict[str, str])


class Access:
    """The access of one user to files; None is the current user, who can access everything."""

    def __init__(self, user: pwd.struct_passwd | None) -> None:
        self.user = user
        self._held: dict[Path, int] = {}
        self._python: Program | None = None

    @property
    def descriptors(self) -> list[int]:
        """The folders held open, for `pass_fds` of the children that run as this user."""
        return list(self._held.values())

    def close(self) -> None:
        """Release the held folders."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def path(self, folder: Path) -> Path:
        """Return a path by which the user reaches a folder: its own, or one through a descriptor.

        Raises:
            StartError: there is none.
        """
        if self.user is None or self._passes(folder):
            return folder
        if sys.platform == "linux":
            if folder not in self._held:
                self._held[folder] = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            held = Path(f"/proc/self/fd/{self._held[folder]}")
            if self._passes(held):
                return held
        raise self._folder_error(folder)

    def python(self, arguments: Sequence[str]) -> Program:
        """Return the program with which the user starts `vedette` with these arguments.

        Raises:
            StartError: the user must not read the code or Python.
        """
        if self._python is None:
            self._python = self._find_python()
        held = {HELD_FOLDERS: ",".join(map(str, self.descriptors))} if self._held else {}
        return replace(
            self._python,
            command=[*self._python.command, *arguments],
            environment=self._python.environment | held,
        )

    def _find_python(self) -> Program:
        if self.user is None:
            return Program([sys.executable, _main(_CODE)])
        prefix, base = Path(sys.prefix), Path(sys.base_prefix)
        python = self.path(prefix) / Path(sys.executable).relative_to(prefix)
        home, code, executable = self.path(base), self.path(_CODE), None
        environment = {"PYTHONPATH": _join_paths(code, os.environ.get("PYTHONPATH"))}
        if home != base:
            # The packages too: a Python started by this one does not detect its virtual environment.
            packages = self.path(prefix) / Path(sysconfig.get_path("purelib")).relative_to(prefix)
            environment["PYTHONPATH"] += f":{packages}"
            executable = home / Path(os.path.realpath(sys.executable)).relative_to(base.resolve())
            environment["PYTHONHOME"] = str(home)
            environment["LD_LIBRARY_PATH"] = _join_paths(home / "lib", os.environ.get("LD_LIBRARY_PATH"))
        program = Program([str(python), _main(code)], executable, environment)
        tried = self._run([*program.command, "--help"], executable=executable, environment=environment)
        if tried.returncode != 0:
            words = tried.stderr.decode(errors="replace").strip().splitlines()
            raise self._folder_error(_CODE, words[-1] if words else f"exit code {tried.returncode}")
        return program

    def environment(self, data: Path) -> dict[str, str]:
        """Return the environment of `vedette` processes on this data folder.

        The user has no home, and must not read the files of `…_FILE` settings.
        """
        if self.user is None:
            return {**os.environ, "VEDETTE_DATA": str(data)}
        downloads, npm = _cache_folders(self.user, data)
        return {
            **with_secrets_of_files(os.environ),
            "VEDETTE_DATA": str(self.path(data)),
            DOWNLOADS: str(self.path(downloads)),
            "npm_config_cache": str(self.path(npm)),
        }

    def _passes(self, folder: Path) -> bool:
        return self._run(["/bin/sh", "-c", 'test -x "$0/."', str(folder)]).returncode == 0

    def _run(
        self, command: list[str], *, executable: Path | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command as the user for its exit code, so that the system decides on permissions."""
        done = subprocess.run(  # pyright: ignore[reportUnknownVariableType]
            command,
            executable=executable,
            cwd="/",
            env={**os.environ, **NO_HOME, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=self.descriptors,
            check=False,
            **as_user(self.user),
        )
        return cast("subprocess.CompletedProcess[bytes]", done)

    def _folder_error(self, folder: Path, reason: str = "") -> StartError:
        assert self.user is not None
        return StartError(
            f"Started as root, vedette runs its parts as the user {self.user.pw_name}, who cannot use"
            f" {folder}{f' ({reason})' if reason else ''}.\n"
            f"Let others read it (chmod -R o+rX {folder}), or start vedette as another user.",
            ExitCode.UNEXPECTED,
        )


def run_as_owner(folder: Path, data: Path, arguments: Sequence[str]) -> int | None:
    """Run a `vedette` command as the owner of the folder that it writes to, when root; return its exit code.

    If no other user owns the folder, nothing is run and None is returned.
    """
    if os.geteuid() != 0 or not folder.exists() or folder.stat().st_uid == 0:
        return None
    with contextlib.closing(Access(pwd.getpwuid(folder.stat().st_uid))) as access:
        environment, program = access.environment(data), access.python(arguments)
        return subprocess.call(
            program.command,
            executable=program.executable,
            env=environment | program.environment | NO_HOME,
            pass_fds=access.descriptors,
            **as_user(access.user),
        )


def hand_over(path: Path, user: pwd.struct_passwd | None) -> None:
    """Make root's files in a folder, and the folder itself, the user's; or a single file.

    By descriptors, and without following links: the user may be active there, and must not lead us elsewhere.
    """
    if user is None or not path.exists():
        return
    os.lchown(path, user.pw_uid, user.pw_gid)
    for _, folders, files, descriptor in os.fwalk(path):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if found.st_uid == 0 and (found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)):
                    os.chown(name, user.pw_uid, user.pw_gid, dir_fd=descriptor, follow_symlinks=False)


def private_folder(path: Path, user: pwd.struct_passwd | None) -> Path:
    """Make a private folder of the user's, or hand over the existing one."""
    path.mkdir(mode=0o700, exist_ok=True)
    hand_over(path, user)
    return path


def reachable_folder(link: Path, user: pwd.struct_passwd | None) -> Path:
    """Make a private folder for a program that cannot use descriptors; return its real path.

    If the user cannot reach it, it is moved to `cluster.ELSEWHERE`, and `link` points there.
    """
    folder = private_folder(link, user).resolve()
    if user is None or succeeds(["/bin/sh", "-c", 'test -w "$0"', str(folder)], user):
        return folder
    final = elsewhere(link, user)
    shutil.move(str(folder), str(final))
    link.symlink_to(final)
    hand_over(final, user)  # a move to another disk copies files as root
    return final


def let_pass(folder: Path) -> None:
    """Let every user pass through a folder, without listing its content."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o011 != 0o011:
        folder.chmod(mode | 0o011)


def _join_paths(first: Path, others: str | None) -> str:
    return f"{first}:{others}" if others else str(first)


def _main(code: Path) -> str:
    return str(code / "cli" / "__main__.py")


def _cache_folders(user: pwd.struct_passwd, data: Path) -> tuple[Path, Path]:
    """Make the user's folders of downloads and of npm: in one place for all data folders, or in this one.

    Their parent stays root's, so that the user cannot lead us elsewhere.
    """
    given = os.environ.get("XDG_CACHE_HOME")
    shared = Path(given).absolute() / "vedette" if given else BINARY_CACHES[0]
    for folder in (shared, data / "cache"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            return private_folder(folder / "downloads", user), private_folder(folder / "npm", user)
    raise StartError(f"Neither {shared} nor {data} can be written to.", ExitCode.DATA_FOLDER)
