"""Copies of templates do what their descriptions say: what comes at Slack, the CRM and so on."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

import pytest
from temporalio.client import Client

from database import Database
from models.automations import templates
from models.events import event_triggers
from models.events.event_data import MonitorRunCompleted
from models.identifiers import new_id
from models.runs.runs import QUEUED_CHANNEL
from tests.api_server import Api, Person
from tests.automations.engine import Endpoint, requested
from tests.automations.workflows import create, post
from tests.templates.conftest import ENDS
from tests.templates.copies import copy, run, secrets_of, sent
from tests.workflow_uploads.files import accepted, ended

pytestmark = pytest.mark.long

TOR, AMERICAN, AUSTRALIAN = "185.220.101.1", "8.8.8.8", "1.1.1.1"
ADA, THROW_AWAY = "ada@example.com", "x@mailinator.com"
SLACK = "SLACK_WEBHOOK_URL"
Sent = list[tuple[str, Any]]


def told(text: str) -> Sent:
    """Return what Slack gets."""
    return [(SLACK, {"text": text})]


LEAD_TEXT = f"For sales: a good lead, 80 points: {ADA}\nAda Lovelace, Analyst, Example Bank, Hi"

# Events one after the other, with what is sent for each.
EVENTS: dict[str, list[tuple[Any, Sent]]] = {
    "sign-up-fraud-check": [
        ({"email": ADA, "ip": AMERICAN, "phone": "+14155552671"}, []),
        ({"email": ADA, "ip": AMERICAN}, []),
        (
            {"email": THROW_AWAY, "ip": TOR, "phone": "12"},
            told(
                f"Suspicious sign-up of {THROW_AWAY} from {TOR}, 155 points: throw-away e-mail address,"
                " e-mail address that takes no mail, IP of the Tor network, IP of a VPN or proxy,"
                " no such phone number"
            ),
        ),
    ],
    "alert-on-tor": [
        ({"ip": AMERICAN}, []),
        ({"ip": TOR}, told(f"A visitor comes from Tor: {TOR} (unknown network, unknown country)")),
        ({"ip": TOR}, []),
    ],
    "login-from-new-country": [
        ({"user": "ada", "ip": AMERICAN}, []),
        (
            {"user": "ada", "ip": AUSTRALIAN},
            told(
                "ada logs in from Australia, where they have not logged in from in the last 90 days"
                f" (IP {AUSTRALIAN})"
            ),
        ),
        ({"user": "ada", "ip": AMERICAN}, []),
    ],
    "breach-watch-for-employees": [
        (
            {"name": "Ada", "email": ADA},
            told(
                f"Ada should change passwords: {ADA} is in 5 breaches not told before (Adobe, LinkedIn,"
                " Evony.com, Zynga.com, Infostealer malware); 5 are known, which exposed Email addresses,"
                " Password hints, Passwords,"
                " Usernames, Names, Dates of birth, Credentials saved on an infected computer"
            ),
        ),
        ({"name": "Ada", "email": ADA}, []),
    ],
    "enrich-crm-contact": [
        (
            {"id": 7, "email": ADA},
            [
                (
                    "CRM_CONTACTS_URL",
                    {
                        "id": 7,
                        "properties": {
                            "full_name": "Ada Lovelace",
                            "company": "Analytical Engines",
                            "title": "Analyst",
                            "city": "London, UK",
                        },
                    },
                )
            ],
        ),
    ],
    "domain-expiry-watch": [
        ({"domains": []}, []),
        ({"domains": ["example.com"]}, told(f"example.com: it ends on {ENDS}")),
        ({"domains": ["example.com"]}, []),
    ],
    "score-and-route-leads": [
        ({"email": ADA, "message": "Hi"}, told(LEAD_TEXT)),
        (
            {"email": THROW_AWAY, "message": "Hi"},
            told(f"For marketing: a lead, -40 points: {THROW_AWAY}\nAda Lovelace, Analyst, Hi"),
        ),
    ],
    "brief-before-demo": [
        (
            {"email": ADA, "company": "Example Bank"},
            told(
                "Ada Lovelace, Analyst\nExample Bank: British bank\nIndustry: financial"
                " services, country: United Kingdom, employees: 1350\nPages: https://example.org/ada https://example.net/"
            ),
        )
    ],
}
BRIEF = EVENTS["brief-before-demo"][0][1][0][1]["text"]


ADDED = {
    "old": ["192.0.2.1"], "new": ["192.0.2.1", "192.0.2.2"], "added": ["192.0.2.2"], "removed": [],
}  # fmt: skip
CHANGED = {
    "monitor_name": "Suppliers", "changes_detected": 1, "total_records": 9,
    "changes": [{"target": "a.example", "changes": {"dns.mx": ADDED}}],
}  # fmt: skip
SILENT = {
    "monitor_name": "Ours", "run_id": "r", "source": "rdapdomain", "why": "quota",
    "silent_since": "2026-11-23T07:00:00Z", "heard_at": None, "silent_runs": 2,
}  # fmt: skip
BAD_ORDER = {"id": 7, "email": THROW_AWAY, "ip": TOR, "phone": "12"}

# What others are tried out with, before they run.
SAMPLES: dict[str, Any] = {template_id: events[0][0] for template_id, events in EVENTS.items()} | {
    "check-address-of-form": {"email": ADA},
    "approve-by-link": {"title": "A new laptop", "requested_by": "Ada"},
    "daily-dark-web-report": {"names": ["example.com"]},
    "enrich-csv-rows": {"email": ADA},
    "failed-runs": {"run": {"workflow_id": "w"}, "error": {"code": "c"}, "input": None},
    "github-first-contribution": {"action": "opened"},
    "monitor-changes": CHANGED,
    "hijack-alert": CHANGED,
    "source-health": SILENT,
    "supplier-watch": CHANGED,
    "breach-watch-over-list": {"emails": [ADA]},
    "new-dark-web-mentions": {"names": ["example.com"]},
    "screen-orders": BAD_ORDER,
    "triage-alerts": {"id": 1, "ip": TOR, "domain": "example.com"},
    "triage-sender": {"from": f"Ada <{ADA}>"},
}


@pytest.mark.parametrize("template_id", templates.load_templates())
async def test_a_copy_can_be_tried_out_without_sending_anything(
    person: Person, receiver: Endpoint, template_id: str
) -> None:
    made = await copy(person, template_id, status="draft")
    path = f"/api/workflows/{made['id']}/test"
    tried = (await person.key.post(path, json={"input": SAMPLES[template_id]})).json()
    assert (tried["status"], tried["error"], tried["test"]) == ("completed", None, True)
    assert sent(receiver) == []


# What a dry run gives where lookups are said to have come to this.
MOCKED: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "screen-orders": (
        {"id": 7, "email": ADA, "ip": TOR, "phone": "12"},
        {"mail": {"validity": "valid"}, "origin": {"security": {"is_tor": True}}, "phone": {"valid": False}},
        {
            "id": 7, "decision": "hold", "score": 60, "not_checked": [],
            "reasons": ["IP of the Tor network", "no such phone number"],
        },
    ),
    "triage-sender": (
        {"from": ADA},
        {
            "mail": {"validity": "valid"}, "leaks": {"breaches": 0, "partial": False},
            "site": {
                "whois": {"registered": True, "created": "2001-01-01"}, "verdict": {"level": "malicious"},
            },
        },
        {"sender": ADA, "verdict": "malicious", "reasons": [], "breaches": 0, "not_known": []},
    ),
    "triage-alerts": (
        {"id": 1, "ip": TOR, "domain": "example.com"},
        {"address": {"verdict": {"level": "clean"}}, "site": {"verdict": {"level": "unknown"}}},
        {"id": 1, "verdict": "unknown", "reasons": [], "not_looked_up": []},
    ),
    "hijack-alert": (
        CHANGED, {"changes": [[{"target": "a.example", "field": "dns.ns", "was": ["a"], "is": ["b"]}]]},
        ["a.example dns.ns: +b, -a"],
    ),
    "source-health": (SILENT, {}, "its quota is used up"),
    "supplier-watch": (
        CHANGED, {"changes": [[{"target": "A", "field": "profile.status", "was": "active", "is": "gone"}]]},
        ["A profile.status: active → gone"],
    ),
    "breach-watch-over-list": (
        {"emails": [ADA]},
        {"checks": [{"email": ADA, "breaches": 1, "services": ["Adobe"], "partial": False}]},
        [f"{ADA}: Adobe"],
    ),
    "new-dark-web-mentions": (
        {"names": ["x"]}, {"searches": [{"total": 1, "results": [{"title": "Dump", "matched": True}]}]},
        ["x: 1 new (Dump)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("template_id", MOCKED)
async def test_a_copy_can_be_tried_out_with_what_lookups_might_say(person: Person, template_id: str) -> None:
    payload, mocks, expected = MOCKED[template_id]
    made = await copy(person, template_id, status="draft")
    path = f"/api/workflows/{made['id']}/test"
    tried = (await person.key.post(path, json={"input": payload, "mocks": mocks})).json()
    assert (tried["status"], tried["error"]) == ("completed", None)
    assert expected in [step["output"] for step in tried["steps"]]


@pytest.mark.parametrize("template_id", EVENTS)
async def test_a_copy_sends_what_its_template_says_and_nothing_where_there_is_nothing_to_say(
    api: Api, person: Person, worker: Client, receiver: Endpoint, template_id: str
) -> None:
    made = await copy(person, template_id)
    for payload, expected in EVENTS[template_id]:
        done = await run(api, person, made, payload)
        assert (done["status"], done["error"]) == ("completed", None)
        assert sent(receiver) == expected, payload


@pytest.mark.parametrize(
    ("email", "hint"),
    [
        (ADA, None),
        ("ada@nowhere", "This address cannot receive mail."),
        (THROW_AWAY, "This address cannot receive mail."),
        (None, "Please enter an address."),
    ],
)
async def test_a_form_is_told_at_once_what_is_wrong_with_an_address(
    api: Api, person: Person, worker: Client, email: str | None, hint: str | None
) -> None:
    made = await copy(person, "check-address-of-form")
    answer = await post(api, made["webhook_url"] + "?wait=30", json={"email": email})
    assert answer.json() == {"ok": hint is None, "hint": hint}


async def test_each_row_of_a_file_is_enriched_unless_its_address_takes_no_mail(
    person: Person, worker: Client
) -> None:
    made = await copy(person, "enrich-csv-rows")
    table = f"E-Mail,Number\n{ADA},1\nnobody@nowhere.invalid,2\n"
    batch = await ended(person, await accepted(person, made["id"], table))
    assert (batch["runs_completed"], batch["runs_failed"]) == (2, 0)
    asked = {"batch_id": batch["id"], "include": "output"}
    runs = (await person.key.get("/api/workflows/runs", params=asked)).json()["runs"]
    row = {
        "row": {"email": ADA, "Number": "1"}, "validity": "valid", "name": "Ada Lovelace",
        "company": "Analytical Engines", "job_role": "Analyst", "location": "London, UK",
    }  # fmt: skip
    assert row in [run["output"] for run in runs]
    assert {"result": False} in [run["output"] for run in runs]


async def test_the_daily_report_names_each_search_with_its_mentions_or_that_it_failed(
    api: Api, person: Person, worker: Client, receiver: Endpoint
) -> None:
    made = await copy(person, "daily-dark-web-report")
    report = await run(api, person, made, {"names": ["example.com", ""]})
    day = datetime.fromisoformat(report["started_at"])
    assert sent(receiver) == told(
        f"Dark web, {day:%A, %d %B %Y}\nexample.com: 2 mentions, new: 2 (Example & Co dump; Example"
        " Manufacturing)\n: the search failed"
    )


async def test_an_approval_is_asked_for_and_what_is_approved_is_carried_out(
    api: Api, person: Person, worker: Client, receiver: Endpoint
) -> None:
    asked = {"title": "A new laptop", "requested_by": "Ada"}
    expected = {"0": "APPROVED_URL", "1": SLACK}
    made = await copy(person, "approve-by-link")
    for choice, name in expected.items():
        await post(api, made["webhook_url"], json=asked)
        await requested(receiver, 1)
        [(_, question)] = sent(receiver)
        text, _, url = question["text"].rpartition(" ")
        assert text == "Ada asks: A new laptop\nAnswer here, once:"
        path = "/api/" + url.partition("/api/")[2]
        page = await api.http.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 200 and "Do you approve?" in page.text
        answer = await api.http.post(f"{path}/form", data={"field0": choice}, headers={"Accept": "text/html"})
        assert answer.status_code == 200 and "Thank you" in answer.text
        await requested(receiver, 1)
        [(came, body)] = sent(receiver)
        assert came == name
        assert body.get("request", asked) == asked
        assert body.get("text", "") in ("", "Not approved: A new laptop")


async def test_an_approval_that_nobody_gives_in_time_is_none(
    person: Person, api: Api, worker: Client, receiver: Endpoint
) -> None:
    steps = templates.load_templates()["approve-by-link"].document()["steps"]
    steps[1]["config"]["timeout"] = 0.1
    made = await copy(person, "approve-by-link", steps=steps)
    await run(api, person, made, {"title": "A new laptop", "requested_by": "Ada"})
    answer = sent(receiver)[1:]
    assert answer == told("Not approved, nobody has answered in time: A new laptop")


async def test_what_a_monitor_finds_is_told_target_by_target(
    api: Api, person: Person, database: Database, worker: Client, receiver: Endpoint
) -> None:
    await copy(person, "monitor-changes")
    data = MonitorRunCompleted(
        monitor_id=new_id(), monitor_name="Suppliers", run_id=new_id(), total_records=9, changes_detected=2,
        targets_partial=0, sources_silent=[], credits_used=9,
    )  # fmt: skip
    changes: list[dict[str, Any]] = [
        {"target": "a.example", "changes": {"whois.registrar": {"old": "A", "new": "B"}, "dns.a": ADDED}},
        {"target": "b.example", "changes": {"ssl.issuer": {"old": "A", "new": "B"}}},
    ]
    async with database.transaction() as connection:
        more = {"changes": changes, "more": 0}
        await event_triggers.start_runs(connection, person.account.id, new_id(), data, more)
    api.services.notifier.notify(QUEUED_CHANNEL)
    await requested(receiver, 1)
    assert sent(receiver) == told(
        "Suppliers: 2 of 9 targets have changed\na.example whois.registrar: A → B\n"
        "a.example dns.a: +192.0.2.2\nb.example ssl.issuer: A → B"
    )


async def test_a_first_contribution_is_told_if_github_has_signed_it(
    api: Api, person: Person, worker: Client, receiver: Endpoint
) -> None:
    made = await copy(person, "github-first-contribution")

    def headers(body: bytes) -> dict[str, str]:
        digest = hmac.new(b"the GITHUB_WEBHOOK_SECRET", body, hashlib.sha256).hexdigest()
        return {
            "content-type": "application/json",
            "x-hub-signature-256": f"sha256={digest}",
        }

    async def deliver(association: str) -> Sent:
        request = {
            "author_association": association, "user": {"login": "ada"}, "html_url": "https://github.com/x/1",
        }  # fmt: skip
        body = json.dumps({"action": "opened", "pull_request": request}).encode()
        answer = await post(api, made["webhook_url"] + "?wait=30", content=body, headers=headers(body))
        assert answer.json()["status"] == "completed", answer.text
        return sent(receiver)

    assert await deliver("MEMBER") == []
    assert await deliver("FIRST_TIME_CONTRIBUTOR") == told(
        "First contribution of ada: https://github.com/x/1\nAccounts of that name: https://keybase.io/ada"
    )
    forged = await post(api, made["webhook_url"], json={}, headers=headers(b"[]"))
    assert forged.status_code == 401


async def test_what_failed_runs_were_given_is_kept_and_their_error_told_once(
    api: Api, person: Person, worker: Client, receiver: Endpoint
) -> None:
    keeper = await copy(person, "failed-runs")
    steps = [{"id": "half", "type": "transform", "config": {"expression": "sum(trigger.parts)"}}]
    failing = await create(person, steps=steps, on_failure={"workflow_id": keeper["id"]})
    assert (await run(api, person, failing, {"parts": "none"}))["status"] == "failed"
    await requested(receiver, 2)
    came = dict(sent(receiver))
    assert came["DEAD_LETTER_URL"]["input"] == {"parts": "none"}
    assert came[SLACK]["text"].startswith("A run of test has failed at half: ")
    assert (await run(api, person, failing, {"parts": 1}))["status"] == "failed"
    await requested(receiver, 1)
    assert [name for name, _ in sent(receiver)] == ["DEAD_LETTER_URL"]


LEAD = {
    "email": ADA, "message": "Hi", "name": "Ada Lovelace", "job_role": "Analyst", "linkedin": None,
}  # fmt: skip
BANK = {
    "name": "Example Bank", "industry": "financial services", "employee_count": 1350,
    "country": "United Kingdom",
}  # fmt: skip


LEAD_SENT = {
    "for": "sales",
    "text": LEAD_TEXT,
    "lead": LEAD | {"company": BANK, "score": 80, "not_looked_up": []},
}
PULL_REQUEST = {
    "author_association": "FIRST_TIMER", "user": {"login": "ada"}, "html_url": "https://github.com/x/1",
}  # fmt: skip
FAILED_RUN = {"id": "r", "workflow_id": "w", "workflow_name": "Import"}


def text_of(template_id: str, n: int) -> dict[str, Any]:
    """Return what Slack is told of an event."""
    [(_, body)] = EVENTS[template_id][n][1]
    return body


# What a copy that has nothing but its own secrets is started with; the alerts that come of it.
AS_IT_IS: dict[str, tuple[list[Any], list[Any]]] = {
    "check-address-of-form": ([{"email": ADA}], []),
    "enrich-crm-contact": ([{"id": 7, "email": ADA}], []),
    "enrich-csv-rows": ([{"email": ADA}], []),
    "daily-dark-web-report": ([{"names": []}], ["Dark web, "]),
    "domain-expiry-watch": ([{"domains": ["example.com"]}], [text_of("domain-expiry-watch", 1)]),
    "monitor-changes": (
        [CHANGED],
        [{"text": "Suppliers: 1 of 9 targets have changed\na.example dns.mx: +192.0.2.2"}],
    ),
    "source-health": ([SILENT], ["Ours has not heard rdapdomain in 2 runs, since 2026-11-23T07:00:00Z: "]),
    "hijack-alert": ([CHANGED], ["Somebody may have taken over a domain, "]),
    "supplier-watch": ([CHANGED], ["Changes of suppliers (Suppliers)\na.example dns.mx: +192.0.2.2"]),
    "breach-watch-over-list": ([{"emails": [ADA]}], ["New breaches of employees, "]),
    "new-dark-web-mentions": ([{"names": ["example.com"]}], ["New on the dark web, "]),
    "screen-orders": ([BAD_ORDER], ["Order 7: reject, 155 points: "]),
    "triage-alerts": ([{"id": 1, "ip": TOR}], []),
    "triage-sender": ([{"from": THROW_AWAY}], [f"An e-mail of {THROW_AWAY} is suspicious: "]),
    "alert-on-tor": ([{"ip": TOR}, {"ip": TOR}], [text_of("alert-on-tor", 1)]),
    "breach-watch-for-employees": (
        [{"name": "Ada", "email": ADA}], [text_of("breach-watch-for-employees", 0)]
    ),
    "login-from-new-country": (
        [{"user": "ada", "ip": AMERICAN}, {"user": "ada", "ip": AUSTRALIAN}],
        [text_of("login-from-new-country", 1)],
    ),
    "sign-up-fraud-check": (
        [{"email": THROW_AWAY, "ip": TOR, "phone": "12"}], [text_of("sign-up-fraud-check", 2)]
    ),
    "brief-before-demo": (
        [{"email": ADA, "company": "Example Bank"}],
        [{"contact": ADA, "text": BRIEF, "links": ["https://example.org/ada", "https://example.net/"]}],
    ),
    "score-and-route-leads": ([{"email": ADA, "message": "Hi"}], [LEAD_SENT]),
    "failed-runs": (
        [{"run": FAILED_RUN, "error": {"code": "c", "message": "No.", "step": "s"}, "input": 1}],
        [{"text": "A run of Import has failed at s: No. (run r)"}],
    ),
    "github-first-contribution": (
        [{"action": "opened", "pull_request": PULL_REQUEST}],
        [
            {
                "text": "First contribution of ada: https://github.com/x/1\nAccounts of that name:"
                " https://keybase.io/ada"
            }
        ],
    ),
}  # fmt: skip


def test_each_template_is_run_as_it_is() -> None:
    assert {*AS_IT_IS, "approve-by-link"} == {*templates.load_templates()}


@pytest.mark.parametrize("template_id", AS_IT_IS)
async def test_a_copy_of_an_account_that_has_nothing_runs_as_it_is(
    api: Api, worker: Client, receiver: Endpoint, template_id: str
) -> None:
    newcomer = await api.person(credits=100)
    hook = {"url": f"{receiver.url}/alerts", "events": ["workflow.alert"]}
    assert (await newcomer.key.post("/api/webhooks", json=hook)).status_code == 201
    given = {name: f"{receiver.url}/{name}" for name in secrets_of(template_id)}
    made = await copy(newcomer, template_id, **({"secrets": given} if given else {}))
    assert (made["status"], made["warnings"]) == ("active", [])
    payloads, alerts = AS_IT_IS[template_id]
    for payload in payloads:
        path = f"/api/workflows/{made['id']}/run?wait=30"
        done = (await newcomer.key.post(path, json={"input": payload})).json()
        assert (done["status"], done["error"]) == ("completed", None)
    own = [step for step in made["steps"] if step["type"] == "webhook"]
    await requested(receiver, len(alerts) + len(own))
    came = dict(sent(receiver))
    assert {name for name in came if name != "alerts"} <= {*given}
    for alert in alerts:
        data = came["alerts"]["data"]["data"]
        assert data["text"].startswith(alert) if isinstance(alert, str) else data == alert


@pytest.mark.parametrize("template_id", [one for one in templates.load_templates() if secrets_of(one)])
async def test_a_copy_without_its_secrets_waits_for_them(api: Api, template_id: str) -> None:
    made = await copy(await api.person(), template_id)
    lacking = {warning["message"] for warning in made["warnings"] if warning["code"] == "unknown_secret"}
    assert made["status"] == "draft"
    assert all(any(name in message for message in lacking) for name in secrets_of(template_id))
