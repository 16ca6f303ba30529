"""Expressions and templates: bombs, code in disguise, strings that must come back as they were."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any

from bench.abuse.cases import Tally, case
from bench.abuse.target import Account, Target

_TRIGGER_PAIRS = "length(map(&length(map(&@, $.trigger)), trigger))"

_BOMBS = {
    "all pairs": _TRIGGER_PAIRS,
    "all triples": "length(map(&length(map(&length(map(&@, $.trigger)), $.trigger)), trigger))",
    "doubling arrays": "trigger" + " | [@, @][]" * 40,
    "doubling strings": "join('', ['x', 'x'])" + " | join('', [@, @])" * 60,
    "doubling objects": "{a: trigger}" + " | {a: @, b: @}" * 60,
    "multiselect tower": "[trigger,trigger,trigger,trigger]" + " | [@, @, @, @]" * 30,
    "flatten tower": "trigger" + "[]" * 900,
    "parentheses": "(" * 5000 + "trigger" + ")" * 5000,
    "not": "!" * 5000 + "trigger",
    "and": "trigger" + " && trigger" * 3000,
    "brackets": "[" * 2000 + "trigger" + "]" * 2000,
    "a long literal": "`" + '"' + "x" * 900_000 + '"`',
    "a deep literal": "`" + "[" * 5000 + "]" * 5000 + "`",
    "sort": "sort_by(map(&{k: to_string(@)}, trigger), &k)" + " | sort_by(@, &k)" * 30,
    "projections": "trigger" + "[*].[@][]" * 100,
    "filters": "trigger[?$.trigger[?$.trigger[?@]]]",
    "a number of 5,000 digits": "9" * 5000,
    "contains": "map(&contains($.trigger, @), trigger)",
    "reverse": "reverse(" * 200 + "trigger" + ")" * 200,
}


def _transform(expression: str, **fields: Any) -> dict[str, Any]:
    return {"id": "bomb", "type": "transform", "config": {"expression": expression}, **fields}


@case("A3 bombs", "expressions that double, nest and pair up, in dry runs and in runs")
async def bombs(target: Target, tally: Tally) -> None:
    """Check that a bomb is refused, or fails its step, with little time and memory; the service continues."""
    account, event = await target.account(), list(range(600))
    workflow = await account.workflow([])
    with tally.memory(target, 100):
        for name, expression in _BOMBS.items():
            start = time.perf_counter()
            body = {"input": event, "steps": [_transform(expression)]}
            with tally.timed():
                answer = await account.key.post(f"/api/workflows/{workflow['id']}/test", json=body)
            seconds = time.perf_counter() - start
            held = answer.status_code in (200, 400, 413) and seconds < 3
            tally.check(held, f"{name}, dry", f"{answer.status_code} after {seconds:.1f} s")
        stored = [name for name, text in _BOMBS.items() if len(text) < 2000][:: 1 if target.full else 3]
        for name in stored:
            created = await account.key.post(
                "/api/workflows",
                json={"name": name, "steps": [_transform(_BOMBS[name], on_error="continue")]},
            )
            if created.status_code == 201:
                run = await account.run(created.json(), event)
                tally.check(run["status"] == "completed", f"{name}, run", run.get("error"))
    answer = await account.key.get("/readyz")
    tally.check(answer.json()["status"] == "ready", "the service is ready after them", answer.json())


_TEMPLATES = (
    "{{7*7}}", "{{ 7*'7' }}", "${7*7}", "#{7*7}", "<%= 7*7 %>", "{%print(7*7)%}", "{{config}}", "{{self}}",
    "{{''.__class__.__mro__[1].__subclasses__()}}", "{x.__class__}", "{0.__class__.__init__.__globals__}",
    "{:>999999999}", "%(x)s%n%s%999999999d", "$(id)", "`id`", "{{ trigger.__class__ }}",
    "{{ @.__globals__ }}",
    "{{constructor.constructor('return process')()}}", "[[${7*7}]]", "*{7*7}", "{{{{ 7 }}}}",
    "{{ secrets }}",
    "{{ env('HOME') }}", "{{ $ENV.HOME }}", "{{ import('os') }}", "{{ to_string(secrets) }}",
    "{{ run.__dict__ }}",
)  # fmt: skip


@case("A4 templates", "code of six template languages, attributes, formats, secrets in templates")
async def template_injection(target: Target, tally: Tally) -> None:
    """Check that templates evaluate expressions alone: all other text stays unchanged, or is refused."""
    account = await target.account()
    for text in _TEMPLATES:
        step = {
            "id": "send",
            "type": "webhook",
            "config": {"url": target.receiver.url, "body": {"text": text}},
        }
        with tally.timed():
            answer = await account.dry_run([step])
        if answer.status_code == 200:
            [shown] = answer.json()["steps"]
            got = (shown["input"] or {}).get("body", {}).get("text")
            tally.check(shown["status"] == "failed" or got in (text, None), text, got)
        else:
            tally.check(answer.status_code == 400, text, answer.status_code)
    events = [*_TEMPLATES, '"}, "admin": true, {"', "{{ trigger }}", "\r\nX-Injected: 1"]
    step = {"id": "send", "type": "webhook", "config": {
        "url": target.receiver.url, "body": {"text": "{{ trigger.text }}",
        "whole": "a {{ trigger.text }}"}}}  # fmt: skip
    workflow = await account.workflow([step])
    for text in events[:: 1 if target.full else 5]:
        run = await account.run(workflow, {"text": text})
        body = run["steps"][0]["input"]["body"]
        tally.check(body == {"text": text, "whole": f"a {text}"}, f"as a value: {text}", body)


STRINGS = (
    "", "undefined", "null", "NaN", "true", "\\", "\\\\", "0", "-0", "1e1000", "0x0",
    "999999999999999999999999",
    "１２３", "Ω≈ç√∫", "田中さん", "﷽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "é", "é", "ﬃ", "İıſ", "\u202etest\u202c",
    "\u2066x\u2069",
    "\ufeff", "\u200b", "\u00a0", "\u0085", "\u2028\u2029", "\x01\x02\x7f", "\t\v\f", "\r\n",
    "a\u0300" * 50,
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)",
    "'\"><svg/onload=1>",
    "1;DROP TABLE users", "' OR 1=1 --", "'; select pg_sleep(5); --", "%s%s%n", "$(touch /tmp/x)", "`id`",
    "../../../etc/passwd", "file:///etc/passwd", "=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1", "|x",
    "\x1b[31mred",
    "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>",
    "${jndi:ldap://127.0.0.1/a}",
    "CON", "NUL", "Scunthorpe", "{0}", "{{", "}}", "%00", "\U0010ffff", "\ud7ff\ue000", "\ufffe\uffff",
    "x" * 9000,
)  # fmt: skip


@case("A12 strings", "strings that break others, in events, workflows, names of keys and dry runs")
async def round_trips(target: Target, tally: Tally) -> None:
    """Check that stored texts are returned unchanged, or refused."""
    account = await target.account()
    mirror = await account.workflow([_transform("trigger")])
    run = await account.run(mirror, list(STRINGS))
    for sent, input_, output in zip(STRINGS, run["input"], run["output"], strict=True):
        tally.check(sent == input_ == output, f"in an event: {sent[:30]!r}", (input_[:30], output[:30]))
    names = await account.run(mirror, {text: text for text in STRINGS})
    tally.check(names["output"] == {text: text for text in STRINGS}, "as names of an event")
    for text in STRINGS[:: 1 if target.full else 4]:
        with tally.timed():
            answer = await account.key.post("/api/workflows", json={"name": "w", "description": text})
        kept = answer.status_code == 201 and answer.json()["description"] == text
        tally.check(kept or answer.status_code == 400, f"a description: {text[:30]!r}", answer.status_code)
        answer = await account.session.post("/api/keys", json={"name": text, "scopes": ["lookups"]})
        kept = answer.status_code == 201 and answer.json()["name"] == text.strip()
        tally.check(kept or answer.status_code == 400, f"a key's name: {text[:30]!r}", answer.status_code)
        for kind, field in (("ip", "ip"), ("phone", "phone"), ("domain", "domain"), ("username", "username")):
            with tally.timed():
                answer = await account.key.post(f"/api/agent/{kind}", json={field: text or " "})
            allowed = answer.status_code in (200, 400, 402, 429, 502, 503)
            tally.check(allowed, f"a {kind}: {text[:30]!r}", answer.status_code)


@case("A5 long runs", "one character 100,000 times wherever a text is taken apart; patterns of users")
async def long_runs(target: Target, tally: Tally) -> None:
    """Check that our regular expressions take linear time, and users cannot supply any."""
    account = await target.account()
    fields = {"ip": "ip", "phone": "phone", "domain": "domain", "validate": "email", "breaches": "email"}
    for character in ("a", " ", "0", ".", "@", "-", "+", "(", "a.", "a@", "\u00a0", "１"):
        text = character * (100_000 // len(character))
        for kind, field in fields.items():
            start = time.perf_counter()
            with tally.timed():
                answer = await account.key.post(f"/api/agent/{kind}", json={field: f"a{text}!"})
            seconds = time.perf_counter() - start
            tally.check(
                answer.status_code < 500 and seconds < 1, f"{kind}: {character!r}", answer.status_code
            )
        headers = {"Idempotency-Key": text[:30_000], "X-Request-Id": text[:20_000]} if text.isascii() else {}
        with tally.timed():
            answer = await account.key.get("/api/credits", headers={n: v.strip() for n, v in headers.items()})
        tally.check(answer.status_code in (200, 400), f"headers: {character!r}", answer.status_code)
    schema = {"type": "string", "pattern": "(a+)+$"}
    answer = await account.key.post("/api/workflows", json={"name": "w", "input_schema": schema})
    tally.check(answer.status_code == 400, "a pattern in a schema", answer.status_code)


@case("dry runs", "six accounts each in a dry run of 100 bombs; a neighbour's events and dry runs meanwhile")
async def dry_runs(target: Target, tally: Tally) -> None:
    """Check that dry runs of many accounts delay no neighbour."""
    neighbour, event = await target.account(), list(range(280))
    light = await neighbour.workflow([_transform("trigger")])
    bomb = _transform(_TRIGGER_PAIRS, on_error="continue", for_each="trigger[:6]")
    steps = [bomb | {"id": f"s{number}"} for number in range(100)]
    heavy = [(one := await target.account(number), await one.workflow(steps)) for number in range(1, 7)]

    async def dry_run(account: Account, workflow: dict[str, Any]) -> tuple[int, float]:
        start = time.perf_counter()
        path = f"/api/workflows/{workflow['id']}/test"
        answer = await account.key.post(path, json={"input": event}, timeout=120)
        if account is heavy[0][0] and answer.status_code == 200:
            spans.append((answer.json()["started_at"], answer.json()["completed_at"]))
        return answer.status_code, time.perf_counter() - start

    spans: list[tuple[str, str]] = []
    _, alone = await dry_run(*heavy[0])
    waits: dict[str, list[float]] = {"ingest": [], "dry run": []}
    under_way = [asyncio.ensure_future(dry_run(account, workflow)) for account, workflow in heavy]
    second = asyncio.ensure_future(dry_run(*heavy[0]))
    while not all(one.done() for one in under_way) and len(waits["ingest"]) < 300:
        start = time.perf_counter()
        answer = await neighbour.key.post(light["webhook_url"], json=event)
        waits["ingest"].append(time.perf_counter() - start)
        tally.check(answer.status_code == 202, "a neighbour's event", answer.status_code)
        status, seconds = await dry_run(neighbour, light)
        waits["dry run"].append(seconds)
        tally.check(status == 200, "a neighbour's dry run", status)
    results = await asyncio.gather(*under_way)
    # Whichever comes first is run; one that comes after its end is run as well.
    both = sorted([results[0][0], (await second)[0]])
    tally.check(both in ([200, 429], [200, 200]), "two dry runs of an account", both)
    alone_each = all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))
    tally.check(alone_each, "a second dry run of an account at once", spans)
    tally.check(all(status == 200 for status, _ in results[1:]), "the dry runs", [s for s, _ in results[1:]])
    tally.figures["alone"] = f"{alone:.1f} s"
    tally.figures["six"] = f"{max(seconds for _, seconds in results):.1f} s"
    for name, most in (("ingest", 1), ("dry run", 3)):
        slowest = max(waits[name])
        tally.figures[f"neighbour's {name}"] = f"{slowest * 1000:,.0f} ms"
        tally.check(slowest < most, f"a neighbour's {name} within {most} s", f"{slowest:.1f} s")
