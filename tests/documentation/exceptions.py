"""What stands in the pages and is not run as it stands, with the reason. What is not used has to go."""

from __future__ import annotations

# Lines of shell blocks, without their comments, that set up what a test has already: what there is instead.
SETTING_UP: dict[str, str] = {
    "make run": "the running service of the tests; tests/embedded runs `vedette up`",
    "VEDETTE_ALLOW_PRIVATE_NETWORKS=127.0.0.1/32 make run": "the service is started with this setting",
    "make format typecheck test-fast": "ruff, pyright and these tests",
    "make test": "these are the tests",
    "make test-long": "these are the long ones",
    "make test-fast": "these are some of the tests",
    "make test ARGS=\"-m 'not postgres and not temporal and not stack'\"": "these are the tests",
    "make abuse": "tests/abuse runs it",
    "make topology": "tests/topology has its tests",
    "make lint": "ruff and pyright run beside the tests",
    "make audit": "tests/supply does the same, but for asking which vulnerabilities are known",
    'make test ARGS="tests/providers/test_contract.py -k greynoise"': "these are the tests",
    'make test ARGS="tests/claims/test_gates.py -k held -x -s -vv"': "these are the tests",
}

# Pages whose shell blocks need what the tests cannot have.
SHELL_NOT_RUN: dict[str, str] = {
    "docs/docker.md": "needs Docker; tests/docker checks the commands of the page",
}

# Pages whose blocks other tests run.
RUN_ELSEWHERE: dict[str, str] = {
    "docs/deploy.md": "tests/topology runs each block on a machine of its own",
    "docs/recipes/own-postgres-and-temporal.md": "test_recipe_own_servers.py runs each block",
    "docs/recipes/tls-proxy.md": "test_recipe_proxy.py starts these proxies before an API",
    "docs/recipes/verify-webhooks.md": "test_recipe_verifiers.py builds and runs each program",
}

# Blocks: page, language and first line (with single spaces between its words).
NOT_RUN: dict[tuple[str, str, str], str] = {
    ("docs/mcp.md", "text", '{"untrusted": ["input", "output", "steps[].input", "steps[].output"], '
        '"id": "…", "status": "completed", "output": {"…": "…"}}'):
        "tests/mcp/test_untrusted.py reads such an answer",
    ("docs/clients.md", "sh", "openapi-python-client generate --url http://127.0.0.1:8000/openapi.json "
        "--output-path vedette_client --meta none"): "tests/openapi/test_clients.py generates this client",
    ("docs/clients.md", "python", "from vedette_client import AuthenticatedClient"):
        "tests/openapi/python_program.py does the same",
    ("docs/clients.md", "sh", "npx openapi-typescript http://127.0.0.1:8000/openapi.json "
        "--output vedette.d.ts"):
        "tests/openapi/test_clients.py generates these types",
    ("docs/cli.md", "sh", "vedette events listen --type 'workflow.run.*'"):
        "goes on until Ctrl-C; tests/cli runs it",
    ("docs/cli.md", "sh", "vedette chat"): "needs a model; tests/assistant has one",
    ("docs/assistant.md", "sh", "vedette chat"): "needs a model; tests/assistant has one",
    ("docs/assistant.md", "text", "VEDETTE_CHAT_BASE_URL=http://127.0.0.1:11434/v1"):
        "settings of a service with a model; tests/assistant has one",
    ("docs/assistant.md", "text", 'GET /api/chat {"enabled": true, "host": "127.0.0.1:11434", '
        '"model": "qwen3:14b", "agreed_at": null, …}'): "needs a model; tests/assistant has one",
    ("docs/monitoring.md", "text", "rule_files: [rules.yml]"):
        "a configuration of Prometheus; tests/health/test_alerts.py runs one",
    ("docs/mcp.md", "text", "invalid_input:"): "what a tool says; tests/mcp has it",
    ("docs/mcp.md", "json", "{"): "settings of an MCP client, which is no part of this",
    ("docs/expressions.md", "json", "{"): "data; tests/language/test_expression_page.py reads it",
    ("docs/adding-a-source.md", "json", "{"): "a fixture: test_adding_a_source_page.py compares it",
    ("docs/recipes/results-to-pandas-duckdb-siem.md", "python", "import pandas"):
        "test_recipe_tables.py runs it with a pandas of its own",
    ("docs/recipes/results-to-pandas-duckdb-siem.md", "python", "import duckdb"):
        "test_recipe_tables.py runs it with a DuckDB of its own",
    ("docs/webhooks.md", "python", "import base64"): "a receiver: test_verifying_page.py runs it",
    ("docs/webhooks.md", "js", 'import crypto from "node:crypto";'): "a receiver: test_verifying_page.py",
    ("docs/webhooks.md", "go", "package main"): "a receiver: test_verifying_page.py builds and runs it",
}  # fmt: skip
