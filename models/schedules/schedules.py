"""The validation of schedules, with corrections in the messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any
from zoneinfo import available_timezones

import orjson
from cronsim import CronSim, CronSimError

from language.definition import Definition
from language.findings import Finding, suggestion
from language.triggers import Schedule, ScheduleTrigger
from models.errors import Invalid
from models.inputs import inputs

_PARTS = {
    "minute": "0–59, as in 0, */15 or 5,35",
    "hour": "0–23, as in 9, */6 or 8-18",
    "day-of-month": "1–31 or L, as in 1, 1,15 or L",
    "month": "1–12 or JAN–DEC, as in 1, */3 or JAN,JUL",
    "day-of-week": "0–7 or SUN–SAT, as in MON, MON-FRI or 5L",
}
# Any moment would do: a calendar repeats within the 50 years that are searched.
_FROM = datetime(2026, 1, 1, tzinfo=UTC)


def errors_of(definition: Definition) -> Iterator[Finding]:
    """Find the errors in the schedule of a definition's trigger, and in the input for its runs."""
    if isinstance(definition.trigger, ScheduleTrigger):
        yield from schedule_errors(definition.trigger.schedule, "/trigger/schedule")
        yield from _input_errors(definition, payload_at(definition.trigger, _FROM))


def payload_at(trigger: ScheduleTrigger, moment: datetime) -> Any:
    """Return the `trigger` for the expressions of a run due at this moment: the input, else the moment.

    Args:
        trigger: the workflow's trigger.
        moment: in UTC.
    """
    return {"scheduled_for": format_moment(moment)} if trigger.input is None else trigger.input


def format_moment(moment: datetime) -> str:
    """Return a moment in UTC in the format of runs, such as 2026-11-23T09:00:00Z."""
    return moment.isoformat().replace("+00:00", "Z")


def _input_errors(definition: Definition, payload: Any) -> Iterator[Finding]:
    """Find the errors of the `trigger` of every run against the workflow's own, valid `input_schema`."""
    if definition.input_schema is None or any(inputs.errors_of(definition)):
        return
    try:
        inputs.InputSchema(definition.input_schema).check(
            payload, "/trigger/input", len(orjson.dumps(payload))
        )
    except Invalid as refused:
        yield from (Finding(error.pointer, error.code, error.message) for error in refused.errors)


def schedule_errors(schedule: Schedule, pointer: str) -> Iterator[Finding]:
    """Find the errors in the schedule at a pointer."""
    every = schedule.every
    if [schedule.cron, every, schedule.frequency].count(None) != 2:
        yield Finding(pointer, "one_schedule", "Give one of cron, every, frequency.")
    if every is not None and [every.minutes, every.hours, every.days].count(None) != 2:
        yield Finding(f"{pointer}/every", "one_duration", "Give one of minutes, hours, days.")
    if schedule.cron is not None:
        yield from cron_errors(schedule.cron, f"{pointer}/cron")
    if schedule.timezone is not None:
        if every is not None:
            yield Finding(f"{pointer}/timezone", "not_allowed", "A period has no time zone: leave it out.")
        else:
            yield from timezone_errors(schedule.timezone, f"{pointer}/timezone")


def timezone_errors(name: str, pointer: str) -> Iterator[Finding]:
    """Find the errors in the name of a time zone at a pointer."""
    if name not in _zones():
        hint = suggestion(name, _zones()) or " Names are like Europe/Berlin."
        yield Finding(pointer, "unknown_timezone", f"There is no such time zone.{hint}")


@cache
def _zones() -> frozenset[str]:
    # These two name no place: one is the machine's own.
    return frozenset(available_timezones() - {"localtime", "Factory"})


def cron_errors(text: str, pointer: str) -> Iterator[Finding]:
    """Find the errors in the cron expression of five fields at a pointer."""
    parts = text.split()
    if len(parts) != len(_PARTS):
        message = f"A cron has five fields ({', '.join(_PARTS)}), as in 0 9 * * MON-FRI."
        yield Finding(pointer, "bad_cron", message)
        return
    try:
        next(CronSim(text, _FROM))
    except CronSimError as error:
        part = str(error).removeprefix("Bad ")
        if part == "day-of-month" and _is_cron([*parts[:3], "*", parts[4]]):
            yield Finding(pointer, "never_fires", "None of these months has such a day.")
        else:
            yield Finding(pointer, "bad_cron", f"The {part} must be {_PARTS[part]}.")
    except StopIteration:
        yield Finding(pointer, "never_fires", "There is no such moment in the next 50 years.")


def _is_cron(parts: list[str]) -> bool:
    try:
        CronSim(" ".join(parts), _FROM)
    except CronSimError:
        return False
    return True
