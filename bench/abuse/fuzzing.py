"""Schemathesis over the API's own description: statuses and shapes that it does not name."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target

_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Without a source to ask, lookups answer 503; a session that ends itself would then only see 401.
_CONFIGURATION = """
[parameters]
"query.wait" = 1

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "502", "503"]
"""


@case("A10 fuzz", "Schemathesis, a seed of its own, over all routes as a key")
async def fuzz(target: Target, tally: Tally) -> None:
    """Check that there is no 5xx, and no answer that OpenAPI lacks. The long version is a test."""
    account = await target.new_account()
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "schemathesis.toml").write_text(_CONFIGURATION)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()",
            "run", f"{target.url}/openapi.json", "--header", f"Authorization: Bearer {account.secret}",
            "--checks", _CHECKS, "--phases", "fuzzing", "--max-examples", str(target.times(8, 1)),
            "--seed", "2", "--workers", "1", "--exclude-path-regex",
            "^/api/auth/(logout|password|register)$",
            "--no-color", "--generation-database", "none",
            cwd=name, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
    generated = re.search(rb"(\d+) generated", output)
    tally.figures["requests"] = generated[1].decode() if generated else "?"
    tally.check(process.returncode == 0, "nothing is found", output.decode()[-1500:])
