"""Schemathesis over the whole API: no 5xx, no status or shape that OpenAPI does not name, no open door."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from settings import Settings
from tests.api_server import running

pytestmark = pytest.mark.long

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,missing_required_header,unsupported_method,allow_header_conformance,"
    "ignored_auth,use_after_free"
)
# Without a network most lookups have no source to ask, which is a documented 503. Of two operations with one
# handler, or with one check of their bodies, one is gone through value by value.
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]

[[operations]]
include-path-regex = "^/api/(agent/(?!bulk)|workflows/validate$)"
phases.coverage.enabled = false
"""
# A session that logged itself out or changed its password would find nothing but 401 from then on.
SELECTIONS = {
    "key": ("--exclude-path-regex", "^/api/auth/(logout|password)$"),
    "session": ("--include-path-regex", "^/api/(credits|keys)"),
}


@pytest.mark.parametrize("credential", SELECTIONS)
async def test_nothing_that_a_fuzzer_sends_breaks_the_api(
    settings: Settings, tmp_path: Path, credential: str
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    off = {name: None for name in type(settings).model_fields if name.startswith("limit_")}
    async with running(settings, **off) as api:
        # Nobody runs the accepted runs here: whoever would wait for one is answered at once.
        api.services.waiter.close()
        person = await api.person(credits=1000)
        token = person.secret if credential == "key" else person.token
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
            "run", f"{api.url}/openapi.json", "--url", api.url, "--header", f"Authorization: Bearer {token}",
            "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10",
            "--seed", "1", "--workers", "1", *SELECTIONS[credential], "--no-color",
            "--generation-database", "none",
            cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(600):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, output.decode()
