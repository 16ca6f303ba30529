"""Programs in processes that are forked from one that has imported the libraries and most modules of ours.

A program gets its arguments, environment and output, and then does all else as ever. What it is spared are
the seconds that imports take: no module of ours looks at the environment while it is imported.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.process import BaseProcess

_LIBRARIES = [
    "aiohttp", "alembic.command", "cryptography.hazmat.primitives.ciphers.aead", "dns.asyncresolver",
    "httpcore", "httpx", "orjson", "phonenumbers", "psycopg_pool", "pwdlib", "pydantic_settings",
    "rich.table", "sqlmodel", "structlog", "temporalio.contrib.pydantic", "temporalio.worker", "tldextract",
    "typer",
]  # fmt: skip
_OURS = [
    "cli", "cli.receiver", "embedded.doctor", "embedded.stack", "migrations.upgrade", "worker",
    "services.operator.administration", "services.operator.configuration", "services.operator.inventory",
    "tests.command_tree",
]  # fmt: skip
_SECONDS = 180


def run(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a `vedette` command with this environment to its end."""
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as errors:
        process = start("cli", arguments, environment, (out.name, errors.name))
        process.join(_SECONDS)
        code = process.exitcode
        process.kill()
        process.join()
        process.close()
        assert code is not None, f"not ended within {_SECONDS} s: vedette {' '.join(arguments)}"
        return subprocess.CompletedProcess(["vedette", *arguments], code, out.read(), errors.read())


def start(
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    outputs: tuple[str, str] | None = None,
) -> BaseProcess:
    """Start the `main` of a module; it writes to the files `outputs`, or where this process does."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests", *_LIBRARIES, *_OURS])  # heeded when the first is started
    outputs = outputs or (f"/proc/{os.getpid()}/fd/1", f"/proc/{os.getpid()}/fd/2")
    given = (module, arguments, environment, os.getcwd(), outputs)
    process = context.Process(target=_become, args=given, daemon=True)
    process.start()
    return process


def _become(
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: str,
    outputs: tuple[str, str],
) -> None:
    """Be the program, in the forked process."""
    for descriptor, path in enumerate(outputs, 1):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["vedette", *arguments]
    importlib.import_module(module).main()
