"""docs/limits.md says what the code holds to."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from api.http import cursors, idempotency, json_body, multipart, protocol
from api.mcp import answers, toolbox
from api.routes import bulk, ingest_tokens, runs
from api.schemas import condition_bodies, job_bodies, monitor_bodies, target_bodies, webhook_bodies
from api.streams import run_events
from assistant import bounds as chat_bounds
from assistant import fence
from engine import dry_run, window
from execution import webhook_step
from language import definition, responding, search, step_evaluation, steps
from language.definition import Concurrency
from language.expressions import parser, values
from language.steps import Retry, WebhookConfig
from language.triggers import Every
from language.validation import checks
from models import idempotency as kept_answers
from models import owned_targets, run_values
from models.accounts import keys, passwords, secrets
from models.chat import approvals as chat_approvals
from models.chat import conversations, messages
from models.inputs import input_schemas, inputs
from models.jobs import acceptance as jobs
from models.lists import lists
from models.monitors import completion, monitors
from models.runs import acceptance, run_writes
from models.webhooks import endpoints
from outbound import requests
from providers.company import identity
from providers.company import kind as company
from providers.darkweb import kind as darkweb
from providers.lookup import questions
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from providers.websearch import kind as websearch
from services import csv_files, delivery_attempts, save_places, signatures, targets, workflow_files
from services.jobs import price_of
from settings import Rate, Settings
from tests.stacks import ROOT

PAGE = (ROOT / "docs" / "limits.md").read_text()
ROWS = {
    (section.partition("\n")[0], name): bound
    for section in PAGE.split("\n## ")[1:]
    for name, bound in re.findall(r"^\| (?!---|What)(.*?) \| (.*?) \|", section, re.MULTILINE)
}
KIB, DAY = 1024, timedelta(days=1).total_seconds()
TTLS = [one.spec.ttl for kind in KINDS.values() for one in kind.sources if isinstance(one, RemoteSource)]
CHAT = chat_bounds.Bounds()
DEFAULTS, FILE = Settings.model_construct(), csv_files.Bounds()


def size(count: int) -> str:
    return f"{count // KIB**2} MiB" if count % KIB**2 == 0 else f"{count // KIB} KiB"


def rate(limit: Rate | None) -> str:
    assert limit is not None
    return f"{limit.requests:,} in {limit.seconds} s"


def schema(of: Any, field: str | None = None) -> Any:
    """The JSON Schema of a type, or of a field of a model."""
    found = TypeAdapter(of).json_schema()
    return found["properties"][field] if field else found


def price(*kinds: str) -> str:
    """Return what the kinds cost, which is the same for all."""
    (credits,) = {KINDS[kind].price for kind in kinds}
    return str(credits) if credits else "free"


# Section → row → the bound; a row may say more behind it.
BOUNDS: dict[str, dict[str, str]] = {
    "Rate limits": {
        "IP lookups of an account": rate(DEFAULTS.limit_ip),
        "breach checks of an account": rate(DEFAULTS.limit_breaches),
        "other lookups of an account": rate(DEFAULTS.limit_lookups),
        "bulk searches, bulk jobs and files of an account": rate(DEFAULTS.limit_bulk),
        "failed logins and sign-ups from an address": rate(DEFAULTS.limit_login),
        "events for a workflow": rate(DEFAULTS.limit_ingest),
    },
    "Prices": {
        "`ip`, `breaches`, `validate`": price("ip", "breach", "validate"),
        "`lookup` (an e-mail address)": price("email"),
        "`phone`": price("phone"),
        "`domain`": price("domain"),
        "`username`": price("username"),
        "`websearch`": price("websearch"),
        "`company`": "1 a person",
        "`darkweb`": f"{price('darkweb')} a block of {darkweb.BLOCK} results",
        "bulk search for companies, pages or domains": "1 a query",
        "bulk search for IP addresses": price("ip"),
        "bulk lookup of e-mail addresses": price("email"),
        "row of a bulk job": f"as its lookup; `company` at most {price_of('company')}",
        "run of a monitor": "1 a target",
        "lookup step of a workflow": "as its lookup",
        "workflows, runs, lists, webhooks, events": "free",
    },
    "Requests": {
        "body": size(json_body.MAX_BODY_BYTES),
        "body with targets for a list, a monitor or a job": size(target_bodies._MAX_BODY_BYTES),
        "CSV file": size(multipart.MAX_FILE_BYTES),
        "time for a body to come": f"{json_body.BODY_SECONDS:.0f} s",
        "request line and headers": size(protocol.MAX_HEAD_BYTES),
        "nesting of JSON": f"{json_body.MAX_DEPTH}",
        "`Idempotency-Key`": f"{idempotency.MAX_KEY_LENGTH} characters",
        "an `Idempotency-Key` is remembered for": f"{kept_answers.KEPT_HOURS} hours",
        "`limit` of a page": f"{schema(cursors.Limit)['maximum']}",
        "`offset`": f"{schema(cursors.Offset)['maximum']:,}",
        "`wait`": f"{schema(runs.Wait)['anyOf'][0]['maximum']} s",
        "answer about a run, page of runs with `include`, of items or of workflows": size(
            run_values.MAX_BYTES
        ),
        "inputs and outputs in a stream of events": size(run_events.ROOM),
        "password": f"{passwords.MIN_LENGTH} to {passwords.MAX_LENGTH:,} characters",
    },
    "Lookups": {
        "time of a lookup": f"{questions._DEADLINE_SECONDS:.0f} s",
        "people of a company": f"{company.PEOPLE}, at most {company.MOST_PEOPLE}",
        "results of a web search": f"{websearch.SHOWN}, at most {websearch.LIMIT}",
        "text of a web search": f"{websearch._LONGEST} characters",
        "mentions on a page of a dark-web search": f"{darkweb.PAGE}",
        "text of a dark-web search": f"{darkweb._SHORTEST} to {darkweb._LONGEST} characters",
        "name of a company": f"{identity._SHORTEST} to {identity._LONGEST} characters",
    },
    "Bulk searches, jobs and files": {
        "queries of a bulk search": f"{schema(bulk.WebQueries, 'queries')['maxItems']}",
        "addresses of a bulk lookup": f"{schema(bulk.Emails, 'emails')['maxItems']:,}",
        "rows of a bulk job": f"{job_bodies.MAX_TARGETS:,}",
        "columns of a file": f"{FILE.columns}",
        "characters of a cell": f"{FILE.cell:,}",
        "unfinished bulk jobs of an account": f"{jobs.MOST_UNFINISHED}",
        "rows of a file for a workflow": f"{FILE.rows:,}",
        "rows of a file for a workflow, as JSON": size(workflow_files.MAX_BYTES),
        "what one run of a file starts with": size(workflow_files.MAX_INPUT_BYTES),
    },
    "Lists and monitors": {
        "lists of an account": f"{lists.MAX_LISTS:,}",
        "monitors of an account": f"{monitors.MAX_MONITORS:,}",
        "targets of a list": f"{owned_targets.MAX_TARGETS:,}",
        "targets of a monitor": f"{owned_targets.MAX_TARGETS:,}",
        "targets of a request": f"{target_bodies.MAX_IN_REQUEST:,}",
        "rows of a file of targets": f"{owned_targets.MAX_TARGETS:,}",
        "characters of a company or a dark-web query as a target": f"{targets.LONGEST}",
        "runs of a monitor at a time": "1",
        "tracked fields, ignored fields, tolerances, conditions": (
            f"{condition_bodies.MAX_CONDITIONS} each"
            if {
                condition_bodies.MAX_CONDITIONS,
                schema(monitor_bodies.Fields)["maxItems"],
                schema(monitor_bodies.Tolerance)["maxProperties"],
            }
            == {condition_bodies.MAX_CONDITIONS}
            else "?"
        ),
        "changed targets in an event": f"{completion.SHOWN_CHANGES}, and {completion.SENT_BYTES // KIB} KiB",
        "retention of a monitor": f"1 to {schema(monitor_bodies.RetentionDays)['maximum']:,} days",
    },
    "Account": {
        "workflows": f"{DEFAULTS.max_workflows:,}",
        "unfinished runs": f"{DEFAULTS.max_unfinished_runs:,}",
        "unfinished runs below one run that runs workflows": f"{DEFAULTS.max_descendants:,}",
        "streams and requests with `wait`": f"{DEFAULTS.max_streams}",
        "events sent with `wait` that are waited for": f"{DEFAULTS.max_ingest_waits}",
    },
    "The assistant": {
        "characters of a message": f"{chat_bounds.MAX_TEXT:,}",
        "messages of an account that are answered at a time": f"{messages.MOST_UNFINISHED}, and 1",
        "requests to the model for an answer": f"{CHAT.requests}",
        "calls of tools for an answer": f"{CHAT.tool_calls}",
        "tokens of an answer": f"{CHAT.tokens:,}",
        "time of an answer, without waits for approvals": f"{CHAT.seconds} s",
        "pause of the model": f"{CHAT.stall_seconds} s",
        "bytes of a result that the model reads": size(fence.MAX_BYTES),
        "bytes of earlier messages that the model reads again": size(CHAT.history_bytes),
        "credits of a conversation without an approval": (
            f"{chat_bounds.DEFAULT_BUDGET}, and {chat_bounds.MAX_BUDGET:,} at most"
        ),
        "time for an approval": f"{chat_approvals.SECONDS // 60} minutes",
        "messages, tokens, credits of an account in a day": (
            f"{CHAT.day_messages}, {CHAT.day_tokens:,}, {CHAT.day_credits}"
        ),
        "retention of a conversation after its last message": f"{conversations.KEPT.days} days",
    },
    "Workflows": {
        "saves of an account at a time": f"{save_places.AT_A_TIME}",
        "definition": size(definition.MAX_DEFINITION_BYTES),
        "steps": f"{steps.MAX_STEPS}",
        "expressions": f"{checks.MAX_EXPRESSIONS:,}",
        "characters of all expressions": f"{checks.MAX_EXPRESSION_CHARACTERS:,}",
        "characters of an expression, `field`, `value` or `url`": f"{parser.MAX_TEXT:,}",
        "work of an expression": f"{values.MAX_NODES:,} nodes",
        "work of all items of a `for_each`": f"{step_evaluation.ALL_ITEMS_NODES:,} nodes",
        "items of a `for_each`": f"{steps.MAX_ITEMS:,}",
        "items at a time": f"{steps.MAX_CONCURRENCY}",
        "output of a `for_each`": size(window.MAX_OUTPUT_BYTES),
        "result of an expression, answer to a webhook step": size(requests.MAX_BYTES),
        "attempts of a step": f"{schema(Retry, 'max_attempts')['maximum']}",
        "`config.timeout` of a webhook step": f"{schema(WebhookConfig, 'timeout')['maximum']} s",
        "`timeout` of a step": "1 day",
        "delay, wait, or `ttl` of a `remember`": f"{steps.MAX_DELAY_SECONDS / DAY:.0f} days",
        "key of a `remember`": f"{step_evaluation.MAX_KEY_LENGTH} characters",
        "`title` and `message` of a wait, as its page shows them": (
            f"{step_evaluation.MAX_TITLE_LENGTH} and {step_evaluation.MAX_MESSAGE_LENGTH:,} characters;"
            " longer ones are cut"
        ),
        "data of a step `emit`": f"{step_evaluation.MAX_ALERT_BYTES // KIB} KiB",
        "depth of workflows that run each other, and of events and runs that follow from each other": (
            f"{run_writes.MAX_DEPTH}"
        ),
        "redirects that a webhook step follows, if it is told to": f"{webhook_step._MAX_REDIRECTS}",
        "period of a schedule": f"1 minute to {schema(Every, 'days')['anyOf'][0]['maximum']} days",
        "`concurrency.limit`": f"{schema(Concurrency, 'limit')['maximum']:,} runs",
        "paths of `search`; characters of a path, and of a value": f"{search.MAX_PATHS}; {search.MAX_LENGTH}",
        "`input_schema`": size(input_schemas.MAX_BYTES),
        "check of an input": f"{inputs.MAX_CHECKS:,} steps",
        "secrets of an account": f"{secrets.MAX_SECRETS:,}",
        "value of a secret": f"{secrets.MAX_VALUE_LENGTH:,} characters",
        "signing secret, at least": f"{signatures.MIN_KEY_BYTES} bytes",
        "secrets that come with a workflow": f"{secrets.MAX_GIVEN}",
        "key of a repeat (`dedupe`)": f"{acceptance.MAX_DEDUPE_LENGTH} characters",
        "body of a `respond`": size(responding.MAX_BODY_BYTES),
        "overlap of an old ingest URL": (
            f"{schema(ingest_tokens.TokenRotation, 'overlap_seconds')['maximum'] / DAY:.0f} days"
        ),
    },
    "Dry runs": {
        "dry runs and validations of an account at a time": "1",
        "calls of steps": f"{dry_run.MAX_CALLS:,}",
        "work of all steps": f"{dry_run.MAX_NODES:,} nodes",
        "inputs and outputs of all steps": size(dry_run.MAX_BYTES),
    },
    "Webhooks and keys": {
        "webhooks of an account": f"{endpoints.MAX_ENDPOINTS}",
        "filters of a webhook": f"{schema(webhook_bodies.Events)['maxItems']}",
        "headers of a webhook": f"{schema(webhook_bodies.Headers)['maxProperties']}",
        "time for an endpoint to answer": f"{delivery_attempts.SECONDS:.0f} s",
        "body of its answer that is kept": size(delivery_attempts._BODY_BYTES),
        "attempts at a delivery": (
            f"{len(DEFAULTS.webhook_schedule) + 1}, over {sum(DEFAULTS.webhook_schedule) // DAY:.0f} days"
        ),
        "only failures until a webhook is switched off": f"{endpoints.PATIENCE.days} days",
        "overlap of an old signing secret": (
            f"{schema(webhook_bodies.Rotation, 'overlap_seconds')['maximum'] / DAY:.0f} days"
        ),
        "keys of an account": f"{keys.MAX_KEYS:,}",
        "session": f"{DEFAULTS.session_hours} hours",
    },
    "Tools of agents (MCP)": {
        "answer": size(answers.MAX_BYTES),
        "`wait_seconds`": f"{toolbox.MAX_WAIT_SECONDS} s",
    },
    "Retention": {
        "runs, batches, jobs, events and deliveries": f"{DEFAULTS.retention_days} days",
        "runs of a monitor": "the same, or its own `retention_days`",
        "answers of sources": f"{min(TTLS) / 60:.0f} minutes to {max(TTLS) / DAY:.0f} days",
    },
}
CASES = [(section, row) for section, rows in BOUNDS.items() for row in rows]


@pytest.mark.parametrize(("section", "row"), CASES)
def test_a_bound_is_that_of_the_code(section: str, row: str) -> None:
    assert re.match(re.escape(BOUNDS[section][row]) + r"(?!\w)", ROWS[section, row])


def test_every_row_of_the_page_is_checked() -> None:
    assert list(ROWS) == CASES
