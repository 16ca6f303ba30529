"""The check of a body for a monitor, with the sources that its runs would wait for; nothing is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import fastapi
from pydantic import BaseModel, Field

from api.deps import Services
from api.http.validation import as_it_came, validate_body
from api.schemas.findings import FoundView, WarningView
from api.schemas.monitor_bodies import NewMonitor, resolve_list
from models.errors import FieldError, Invalid
from models.monitors import monitored_targets
from models.monitors.monitors import MonitorSettings
from models.schedules.automation_schedules import SHOWN
from models.schedules.calendars import Calendar
from services.monitors import check_plan, warn
from services.targets import Checked, check_targets

# All errors in it are part of the answer.
GivenMonitor = Annotated[dict[str, Any], as_it_came(NewMonitor), fastapi.Body()]


class MonitorValidity(BaseModel):
    """The verdict on a monitor: whether it can be made, its errors, and the sources its runs wait for."""

    valid: bool = Field(description="Whether it can be made.")
    errors: list[FoundView] = Field(description="What stands in the way, all at once.")
    warnings: list[WarningView] = Field(
        description="Which sources have its runs go at their pace, need longer than its period, or are left"
        " out."
    )
    next_runs: list[datetime] = Field(
        description="When its calendar would have it run, had it been made now: the first five times."
    )


@dataclass(frozen=True)
class MonitorCheck:
    """The check of a new monitor, shared by creation and validation.

    Attributes:
        body: with the id of its list instead of the name.
        plan: the chosen settings.
        checked: its targets.
        errors: all errors.
    """

    body: NewMonitor
    plan: MonitorSettings
    checked: Checked
    errors: list[FieldError]


async def check_monitor(services: Services, account_id: UUID, body: NewMonitor) -> MonitorCheck:
    """Check a new monitor, except for what only the creating transaction can detect."""
    async with services.database.connection() as connection:
        body, ambiguous = await resolve_list(connection, account_id, body)
    plan, texts = body.plan(), body.texts()
    checked = await check_targets(services.pool, account_id, body.monitor_type, texts)
    wrong = [*ambiguous, *body.errors(), *check_plan(body.monitor_type, plan), *body.errors_of(checked)]
    return MonitorCheck(body, plan, checked, wrong)


async def say_validity(services: Services, account_id: UUID, given: dict[str, Any]) -> MonitorValidity:
    """Return the verdict that creating this monitor would reach."""
    try:
        check = await check_monitor(services, account_id, validate_body(NewMonitor, given, None))
        if check.errors:
            raise Invalid(check.errors)
        count = await _count_targets(services, account_id, check)
    except Invalid as invalid:
        errors = [
            FoundView(pointer=one.pointer, code=one.code, message=one.message) for one in invalid.errors
        ]
        return MonitorValidity(valid=False, errors=errors, warnings=[], next_runs=[])
    plan, now = check.plan, datetime.now(UTC)
    calendar = Calendar(plan.frequency, plan.cron, plan.timezone, now)
    chosen = check.body.monitor_type, plan.tracked_fields, plan.ignored_fields
    warnings = warn(*chosen, calendar, count, services.lookups)
    return MonitorValidity(
        valid=True,
        errors=[],
        warnings=[WarningView(pointer="", **one) for one in warnings],
        next_runs=calendar.following(now, SHOWN),
    )


async def _count_targets(services: Services, account_id: UUID, check: MonitorCheck) -> int:
    """Return how many targets the monitor would have.

    Raises:
        Invalid: its list cannot be watched.
    """
    if check.plan.list_id is None:
        return len(set(check.checked.targets))
    async with services.database.transaction() as connection:
        return await monitored_targets.check_list(
            connection, account_id, check.body.monitor_type, check.plan.list_id
        )
