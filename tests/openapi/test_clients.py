"""From the document, generators make clients that compile, and that work."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tests.api_server import Api
from tests.openapi import generators
from tests.openapi.generators import HERE, REDOCLY, SPECTRAL, TYPESCRIPT
from tests.pinned_packages import run

pytestmark = [pytest.mark.long, pytest.mark.node]


@pytest.fixture(scope="module")
async def document(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The running API's own document, as a file."""
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_bytes((await api.http.get("/openapi.json")).content)
    return path


async def test_openapi_python_client_makes_a_client_that_works(
    api: Api, document: Path, tmp_path: Path
) -> None:
    environment = await asyncio.to_thread(generators.openapi_python_client)
    python, package = environment / "bin" / "python", tmp_path / "vedette_client"
    await asyncio.to_thread(
        run, python, "-m", "openapi_python_client", "generate", "--path", document, "--output-path", package,
        "--meta", "none", "--fail-on-warning", PATH=f"{environment}/bin:/usr/bin:/bin",
    )  # fmt: skip
    await asyncio.to_thread(run, python, "-m", "compileall", "-q", package)
    shutil.copy(HERE / "python_program.py", tmp_path)
    person = await api.person(credits=5)
    await asyncio.to_thread(
        run, python, "-W", "error", tmp_path / "python_program.py", api.url, person.secret, cwd=tmp_path
    )


async def test_openapi_typescript_makes_types_that_hold(document: Path, tmp_path: Path) -> None:
    packages = await asyncio.to_thread(generators.openapi_typescript)
    tool = packages / "openapi-typescript" / "bin" / "cli.js"
    await asyncio.to_thread(run, "node", tool, document, "--output", tmp_path / "vedette.d.ts")
    for name in ("program.ts", "tsconfig.json"):
        shutil.copy(TYPESCRIPT / name, tmp_path)
    await asyncio.to_thread(run, "node", packages / "typescript" / "bin" / "tsc", cwd=tmp_path)


async def test_redocly_finds_nothing_wrong_with_the_document(document: Path, tmp_path: Path) -> None:
    """It asks nobody for news, tells nobody of itself, and would reach nobody."""
    tool = await asyncio.to_thread(generators.redocly)
    for name in ("redocly.yaml", ".redocly.lint-ignore.yaml"):
        shutil.copy(REDOCLY / name, tmp_path)
    shutil.copy(document, tmp_path / "openapi.json")
    said = await asyncio.to_thread(
        run, "node", tool, "lint", "openapi.json", "--config", "redocly.yaml", "--format", "json",
        REDOCLY_TELEMETRY="off", REDOCLY_SUPPRESS_UPDATE_NOTICE="true", REDOCLY_SUPPRESS_NOTIFICATIONS="true",
        HTTPS_PROXY="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9", cwd=tmp_path,
    )  # fmt: skip
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert (found["totals"]["errors"], found["totals"]["warnings"]) == (0, 0), found["problems"][:5]
    ignored = (REDOCLY / ".redocly.lint-ignore.yaml").read_text().count("#/paths/")
    assert found["totals"]["ignored"] == ignored, "what is ambiguous no more need not be ignored"


async def test_spectral_finds_nothing_wrong_with_the_document(document: Path) -> None:
    tool = await asyncio.to_thread(generators.spectral)
    said = await asyncio.to_thread(
        run, "node", tool, "lint", document, "--ruleset", SPECTRAL / "spectral.yaml", "--format", "text",
        "--fail-severity", "hint", "--quiet",
    )  # fmt: skip
    assert said.strip() == ""
