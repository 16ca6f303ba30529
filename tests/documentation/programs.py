"""Programs that run the blocks of a page: one for each language, whose blocks are one program.

Each is given one block after the other, so that the languages can take turns, and tells when it has done one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from tests.documentation.pages import Block

_SECONDS = 60

# Runs the files that are named on its standard input, one a line, in one namespace.
_PYTHON = """
import sys
turns, _, done = sys.stdin, sys.argv, sys.argv[1]
space = {"__name__": "__main__"}
for turn in turns:
    line, page, path = turn.rstrip("\\n").split("\\t")
    with open(path, encoding="utf-8") as file:
        exec(compile("\\n" * int(line) + file.read(), page, "exec"), space)
    print("\\n" + done, flush=True)
"""

# What stands between the blocks of a JavaScript program: it tells that one is done and waits for its turn.
_TURN = "await __turn();"
_JAVASCRIPT = (
    "const __turn = await (async () => {{"
    " const {{createInterface}} = await import('node:readline');"
    " const lines = createInterface({{input: process.stdin}})[Symbol.asyncIterator]();"
    " let begun = false;"
    " return async () => {{ if (begun) process.stdout.write('\\n{done}\\n'); begun = true;"
    " if ((await lines.next()).done) process.exit(0); }}; }})();"
)


class BlockFailed(AssertionError):
    """A block did not do what it should."""


class Program(ABC):
    """A program that runs blocks of one language in a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        self._done = f"done-{uuid4().hex}"
        self._process: asyncio.subprocess.Process | None = None
        self._errors = folder / f".{type(self).__name__.lower()}.errors"

    @abstractmethod
    def _command(self) -> Sequence[str]: ...

    @abstractmethod
    def _turn(self, block: Block, text: str) -> str:
        """Return what is written to the program for it to run the block."""

    async def run(self, block: Block, text: str) -> str:
        """Run `text`, which is what the block says, and give what it wrote.

        Raises:
            BlockFailed: it ended with an error, or not in time.
        """
        if self._process is None:
            self._process = await self._start()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(self._turn(block, text).encode())
        output = b""
        try:
            async with asyncio.timeout(_SECONDS):
                output = await self._process.stdout.readuntil(f"\n{self._done}\n".encode())
        except asyncio.IncompleteReadError as ended:
            raise self._failed(block, ended.partial, "ended with an error") from None
        except TimeoutError:
            raise self._failed(block, output, f"did not end within {_SECONDS} s") from None
        return output.decode().removesuffix(f"\n{self._done}\n")

    async def close(self) -> None:
        """End it, with all that its blocks have started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # its own group: start_new_session
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.communicate()

    async def _start(self) -> asyncio.subprocess.Process:
        with self._errors.open("wb") as errors:
            return await asyncio.create_subprocess_exec(
                *self._command(), cwd=self._folder, env=self._environment, start_new_session=True,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors, limit=2**24,
            )  # fmt: skip

    def _failed(self, block: Block, output: bytes, how: str) -> BlockFailed:
        said = (output.decode(errors="replace") + self._errors.read_text(errors="replace")).strip()
        return BlockFailed(f"{block.place}: the block {how}:\n{block.text}\n{said}")

    def _written(self, block: Block, text: str, suffix: str) -> Path:
        path = self._folder / f".block-{block.line}.{suffix}"
        path.write_text(text, encoding="utf-8")
        return path


class Shell(Program):
    """Bash; a command that fails or a variable that is not set ends it."""

    def _command(self) -> Sequence[str]:
        return ["bash", "--norc", "-eu"]

    def _turn(self, block: Block, text: str) -> str:
        return f"source {self._written(block, text, 'sh')} </dev/null\nprintf '\\n%s\\n' {self._done}\n"


class Python(Program):
    """The Python of the virtual environment; warnings are errors."""

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-W", "error", "-c", _PYTHON, self._done]

    def _turn(self, block: Block, text: str) -> str:
        return f"{block.line}\t{block.page}\t{self._written(block, text, 'py')}\n"


class JavaScript(Program):
    """Node, which gets all blocks of the page at once as a module that waits for its turns."""

    def __init__(self, folder: Path, environment: dict[str, str], texts: Sequence[str]) -> None:
        super().__init__(folder, environment)
        start = _JAVASCRIPT.format(done=self._done)
        self._module = folder / ".page.mjs"
        program = "\n".join([start, *(f"{_TURN}\n{text}" for text in texts), _TURN])
        self._module.write_text(program, encoding="utf-8")

    def _command(self) -> Sequence[str]:
        return ["node", "--throw-deprecation", str(self._module)]

    def _turn(self, block: Block, text: str) -> str:
        return "next\n"
