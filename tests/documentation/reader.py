"""A reader who does what a page says, block after block, with an account and in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import yaml

from tests.documentation import answers, definitions, exceptions
from tests.documentation.pages import Block
from tests.documentation.programs import BlockFailed, JavaScript, Program, Python, Shell
from tests.stacks import ROOT, StackProcess

SHOWN_ADDRESS = "http://127.0.0.1:8000"
SHOWN_RECEIVER = "127.0.0.1:9000"
_EXECUTED = ("sh", "python", "js")
_SETTINGS = ("VEDETTE_", "DATABASE_URL", "TEMPORAL_", "SUPERVISOR_")
_SENT = re.compile(r"(POST|PUT|PATCH|DELETE) (/\S+)")
_CALLED = re.compile(r"tool (\w+)")
_COMMENT = re.compile(r"\s+#\s.*$")


def _is_excepted(block: Block) -> bool:
    return (
        block.key in exceptions.NOT_RUN
        or block.page in exceptions.RUN_ELSEWHERE
        or (block.language == "sh" and block.page in exceptions.SHELL_NOT_RUN)
    )


@dataclass
class Account:
    """Whose credentials a reader has."""

    email: str
    password: str
    api_key: str


@dataclass
class Reader:
    """One who reads a page.

    Attributes:
        stack: the service that they have started.
        account: theirs.
        folder: where they are: it looks like a checkout with its data folder.
        receiver: the address that the pages call 127.0.0.1:9000.
        skipped: why blocks were not run here.
    """

    stack: StackProcess
    account: Account
    folder: Path
    receiver: str
    skipped: str | None = None
    _programs: dict[str, Program] = field(default_factory=dict[str, Program])
    _outputs: list[str] = field(default_factory=list[str])

    def furnish(self) -> None:
        """Put into the folder what a page may name."""
        (self.folder / "data").mkdir(parents=True)
        for name in ("docs", "templates", "examples"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for example in filter(Path.is_file, (self.folder / "examples").rglob("*")):
            example.write_text(self._here(example.read_text(encoding="utf-8")), encoding="utf-8")
        (self.folder / ".venv").symlink_to(sys.prefix)
        account = {"url": self.stack.url, **vars(self.account)}
        (self.folder / "data" / "first-account.json").write_text(json.dumps(account, indent=2) + "\n")
        header = f"Authorization: Bearer {self.account.api_key}\n"
        (self.folder / "data" / "first-account.header").write_text(header)

    def environment(self) -> dict[str, str]:
        """The environment of the blocks: what getting-started exports, and no settings of whoever tests."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        return inherited | {
            "PATH": f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "NO_PROXY": "127.0.0.1",
            "VEDETTE_URL": self.stack.url,
            "VEDETTE_API_KEY": self.account.api_key,
            "VEDETTE_DATA": str(self.stack.data),
        }

    async def read(self, blocks: list[Block]) -> None:
        """Do what the blocks of a page say, in order.

        Raises:
            BlockFailed: one is not true.
        """
        scripts = [
            self._here(block.text) for block in blocks if block.language == "js" and not _is_excepted(block)
        ]
        environment = self.environment()
        self._programs = {
            "sh": Shell(self.folder, environment),
            "python": Python(self.folder, environment),
            "js": JavaScript(self.folder, environment, scripts),
        }
        try:
            for number, block in enumerate(blocks):
                await self._do(block, self._expected_code(blocks[number + 1 :]))
        finally:
            for program in self._programs.values():
                await program.close()

    async def _do(self, block: Block, expected_code: str | None) -> None:
        if _is_excepted(block):
            return
        if block.language == "js" and shutil.which("node") is None:
            self.skipped = "node is not installed"
            return
        if block.language == "mermaid" and not block.role:
            return  # test_diagrams.py holds it against the code
        if block.language in _EXECUTED and not block.role:
            await self._execute(block, expected_code)
        elif block.role in ("answer", "output"):
            self._compare(block)
        elif block.language == "json" and (sent := _SENT.fullmatch(block.role)):
            await self._send(block, sent[1], sent[2])
        elif block.language == "json" and (called := _CALLED.fullmatch(block.role)):
            await self._call_tool(block, called[1])
        elif block.language == "json" and block.role:
            await self._check_instance(block)
        elif block.language in ("json", "yaml") and not block.role:
            self._check_definition(block)
        else:
            raise BlockFailed(
                f"{block.place}: nothing runs a block of ```{block.language} {block.role}. "
                f"See CONTRIBUTING.md; or list {block.key} in {exceptions.__name__}"
            )

    async def _execute(self, block: Block, expected_code: str | None) -> None:
        text = self._here(block.text)
        if block.language == "sh":
            if "…" in text:
                raise BlockFailed(f"{block.place}: a reader cannot run a `…`")
            text = self._without_setting_up(text)
        if not block.adjoins:
            self._outputs = []
        output = await self._programs[block.language].run(block, text)
        self._outputs.append(output)
        for code in answers.refusals(output):
            if code != expected_code:
                raise BlockFailed(f"{block.place}: it was refused ({code}):\n{block.text}\n{output}")

    def _without_setting_up(self, text: str) -> str:
        """The text without the commands that are done already."""
        lines: list[str] = []
        for line in text.splitlines():
            command = _COMMENT.sub("", line).strip()
            if command not in exceptions.SETTING_UP:
                lines.append(line)
        return "\n".join(lines) + "\n"

    def _expected_code(self, following: list[Block]) -> str | None:
        """The code of the error that is shown behind executed blocks."""
        for block in following:
            if not block.adjoins:
                return None
            if block.role == "answer":
                shown = self._parsed(block)
                return shown.get("code") if isinstance(shown, dict) else None
        return None

    def _compare(self, block: Block) -> None:
        """Compare what is shown with the outputs of the blocks above: of one it has to be."""
        if not self._outputs:
            raise BlockFailed(f"{block.place}: no block above it was run")
        if block.language == "json":
            shown = self._parsed(block)
            real = [one for output in self._outputs for one in answers.documents(output)]
            found = [list(answers.differences(shown, one)) for one in real]
        else:
            wanted = self._here(block.text)
            found = [answers.missing_lines(wanted, output) for output in self._outputs]
        if not found or all(found):
            least = "\n".join(min(found, key=len)) if found else "nothing like it was written"
            raise BlockFailed(f"{block.place}: {least}\n\n{'---'.join(self._outputs)}")

    async def _send(self, block: Block, method: str, path: str) -> None:
        """Send a body: it has to be accepted."""
        async with self._client() as client:
            response = await client.request(method, path, json=self._parsed(block))
        if not response.is_success:
            said = f"{method} {path} answers {response.status_code}: {response.text}"
            raise BlockFailed(f"{block.place}: {said}")
        self._outputs = [response.text]

    async def _call_tool(self, block: Block, name: str) -> None:
        """Call a tool as an agent does: it has to give an answer."""
        if not block.adjoins:
            self._outputs = []
        params = {"name": name, "arguments": self._parsed(block)}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        async with self._client() as client:
            response = await client.post("/mcp", json=message, headers=headers)
        said = json.loads(response.text.partition("data: ")[2] or response.text)
        if "result" not in said or said["result"].get("isError"):
            raise BlockFailed(f"{block.place}: the tool {name} was refused:\n{response.text}")
        self._outputs.append(json.dumps(said["result"].get("structuredContent")))

    def _client(self) -> httpx.AsyncClient:
        headers = {"x-api-key": self.account.api_key}
        return httpx.AsyncClient(
            base_url=self.stack.url, headers=headers, trust_env=False, verify=False, timeout=30
        )

    async def _check_instance(self, block: Block) -> None:
        """Check an instance of a schema of the API."""
        async with self._client() as client:
            document = (await client.get("/openapi.json")).json()
        if block.role not in document["components"]["schemas"]:
            raise BlockFailed(f"{block.place}: {block.role!r} is no schema of /openapi.json")
        schema = document | {"$ref": f"#/components/schemas/{block.role}"}
        for error in jsonschema_rs.validator_for(schema).iter_errors(self._parsed(block)):
            raise BlockFailed(f"{block.place}: {error.message}")

    def _check_definition(self, block: Block) -> None:
        try:
            faults = definitions.faults(self._parsed(block))
        except ValueError as error:
            raise BlockFailed(f"{block.place}: it {error}") from None
        if faults:
            raise BlockFailed("\n".join(f"{block.place}: {fault}" for fault in faults))

    def _parsed(self, block: Block) -> Any:
        text = self._here(block.text)
        try:
            return yaml.safe_load(text) if block.language == "yaml" else json.loads(text)
        except (ValueError, yaml.YAMLError) as error:
            raise BlockFailed(f"{block.place}: no {block.language}: {error}") from None

    def _here(self, text: str) -> str:
        """The text with the addresses of this service and this receiver."""
        here = text.replace(SHOWN_ADDRESS, self.stack.url).replace(SHOWN_RECEIVER, self.receiver)
        return here.replace("receiver.py 9000", f"receiver.py {self.receiver.rpartition(':')[2]}")
