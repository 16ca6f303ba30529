"""The settings of monitors in requests, and their defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from api.http.validation import Body
from api.schemas.condition_bodies import WHEN, ChangeCondition, Conditions, stored_conditions
from api.schemas.target_bodies import Targets
from database import Connection
from language.definition import Name
from language.references import NOBODY
from models.errors import FieldError
from models.identifiers import parse_id
from models.lists import named_objects
from models.lists.lists import TargetType
from models.monitors.monitor_views import ChangeDetection, Frequency, MonitorView, Status
from models.monitors.monitors import MonitorSettings
from models.monitors.tolerances import without_defaults

DataSource = Literal["inline", "list"]


def _id_or_name(given: Any) -> UUID | str:
    return given if isinstance(given, UUID) else parse_id(str(given)) or str(given)


ListRef = Annotated[
    UUID | str,
    BeforeValidator(_id_or_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200}),
]


def _id_of(ref: UUID | str | None) -> UUID | None:
    """Return the list's id; for a name that is not resolved yet, the id of no list."""
    return NOBODY if isinstance(ref, str) else ref


Cron = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Timezone = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Fields = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=100)]], Field(max_length=50)
]
Tolerance = Annotated[
    dict[
        Annotated[str, StringConstraints(max_length=100)],
        Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)],
    ],
    Field(max_length=50),
]
RetentionDays = Annotated[int, Field(strict=True, ge=1, le=3_650)]

_NAME = "What the monitor is called."
_STATUS = "Whether it runs by itself."
_FREQUENCY = "How often it runs, counted from its creation; with neither this nor `cron`: monthly."
_CRON = "When it runs, instead: minute, hour, day, month, weekday, as in `0 9 * * MON-FRI`."
_TIMEZONE = "The IANA zone in which `frequency` and `cron` are read, as Europe/Berlin."
_CHANGE_DETECTION = (
    "`diff_only`: an answer is kept where it has changed. `full_refresh`: of every run, and sources are asked"
    " anew each time."
)
_TRACKED = (
    "The fields that count: dotted (`whois.registrar`), blocks (`dns`), or with `*` (`*.score`); none: all."
)
_IGNORED = "Fields that do not count, named in the same ways."
_TOLERANCE = (
    "Dotted field → by how much it may move without a change: an amount for numbers, days for dates, words"
    " for texts; for arrays among how many known members they may rotate. 0: every difference is a change."
    " Fields that are left out have their default."
)
_WHEN = f"{WHEN} A monitor without any has those of the list that it watches."
_RETENTION = "How many days its runs and results are kept; null: as the installation has it."
_SOURCE = "Where its targets are: its own, or those of a list."
_REF = "The list to watch, with `data_source_type` list: its id, or its name, which is kept as the id."

_RECORD = frozenset(MonitorView.model_fields)
_CHOSEN = frozenset(
    {
        "name", "status", "monitor_type", "frequency", "cron", "timezone", "change_detection",
        "tracked_fields", "ignored_fields", "tolerance", "when", "retention_days", "data_source_type",
        "data_source_ref",
    }
)  # fmt: skip


class NewMonitor(Targets):
    """A monitor to make, with its first targets, if any."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "Our domains",
                    "monitor_type": "domain",
                    "frequency": "daily",
                    "timezone": "Europe/Berlin",
                    "tracked_fields": ["whois", "dns.ns"],
                    "targets": ["example.com", "example.org"],
                }
            ]
        }
    )
    read_only = _RECORD - _CHOSEN

    name: Name = Field(description=_NAME)
    status: Status = Field(default="active", description=_STATUS)
    monitor_type: TargetType = Field(default="email", description="What its targets are.")
    frequency: Frequency | None = Field(None, description=_FREQUENCY)
    cron: Cron | None = Field(None, description=_CRON)
    timezone: Timezone = Field(default="UTC", description=_TIMEZONE)
    change_detection: ChangeDetection = Field(default="diff_only", description=_CHANGE_DETECTION)
    tracked_fields: Fields = Field(default_factory=list[str], description=_TRACKED)
    ignored_fields: Fields = Field(default_factory=list[str], description=_IGNORED)
    tolerance: Tolerance = Field(default_factory=dict[str, float], description=_TOLERANCE)
    when: Conditions = Field(default_factory=list[ChangeCondition], description=_WHEN)
    retention_days: RetentionDays | None = Field(None, description=_RETENTION)
    data_source_type: DataSource | None = Field(None, description=_SOURCE)
    data_source_ref: ListRef | None = Field(None, description=_REF)

    def errors(self) -> list[FieldError]:
        """Return the contradictions in the origin of its targets."""
        errors = _source_errors(self.data_source_type, _id_of(self.data_source_ref))
        given = [place for place in ("targets", "emails") if getattr(self, place) is not None]
        if self.data_source_type == "list" or self.data_source_ref is not None:
            message = "The list has the targets: leave this out, or data_source_type and data_source_ref."
            errors += [
                FieldError(f"/{place}", "not_allowed", message) for place in given if getattr(self, place)
            ]
        elif given and not self.targets and not self.emails:
            message = "Give at least one target, or leave the field out and add some later."
            errors.append(FieldError(f"/{given[0]}", "too_few_items", message))
        return errors

    def plan(self) -> MonitorSettings:
        """Return the chosen settings."""
        return MonitorSettings(
            name=self.name,
            frequency="monthly" if self.frequency is None and self.cron is None else self.frequency,
            cron=self.cron,
            timezone=self.timezone,
            change_detection=self.change_detection,
            tracked_fields=self.tracked_fields,
            ignored_fields=self.ignored_fields,
            tolerance=without_defaults(self.monitor_type, self.tolerance),
            when=stored_conditions(self.when),
            retention_days=self.retention_days,
            list_id=_id_of(self.data_source_ref),
        )


def _refuse_targets(given: Any) -> Any:
    message = "Targets are added and removed by POST and DELETE at the monitor's /targets."
    raise PydanticCustomError("not_allowed", "{text}", {"text": message})


_NotHere = Annotated[SkipJsonSchema[Any], AfterValidator(_refuse_targets)]
_ABSENT: Any = None


class MonitorChanges(Body):
    """The fields to change; the absent ones stay. Read-only ones are ignored."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"}]}
    )
    read_only = NewMonitor.read_only

    name: Name = Field(default=_ABSENT, description=_NAME)
    status: Status = Field(default=_ABSENT, description=_STATUS)
    monitor_type: TargetType = Field(default=_ABSENT, description="What its targets are: always the same.")
    frequency: Frequency | None = Field(
        default=None, description="How often it runs; `cron` is null then. Null: as before."
    )
    cron: Cron | None = Field(
        default=None, description="When it runs; `frequency` is null then. Null: as before."
    )
    timezone: Timezone = Field(default=_ABSENT, description=_TIMEZONE)
    change_detection: ChangeDetection = Field(default=_ABSENT, description=_CHANGE_DETECTION)
    tracked_fields: Fields = Field(default=_ABSENT, description=_TRACKED)
    ignored_fields: Fields = Field(default=_ABSENT, description=_IGNORED)
    tolerance: Tolerance = Field(default=_ABSENT, description=_TOLERANCE)
    when: Conditions = Field(default=_ABSENT, description=_WHEN)
    retention_days: RetentionDays | None = Field(default=None, description=_RETENTION)
    data_source_type: DataSource = Field(default=_ABSENT, description=_SOURCE)
    data_source_ref: ListRef | None = Field(default=None, description=_REF)
    targets: _NotHere = None
    emails: _NotHere = None

    def errors(self, type: str, former: MonitorSettings) -> list[FieldError]:
        """Return the contradictions among the changes, and with the current monitor.

        Args:
            type: the type of its targets.
            former: the settings before.
        """
        errors: list[FieldError] = []
        if self.monitor_type not in (None, type):
            message = f"It stays {type}. For targets of another type make another monitor."
            errors.append(FieldError("/monitor_type", "not_allowed", message))
        source = self.data_source_type or (None if former.list_id is None else "list")
        kept = source == "list" and "data_source_ref" not in self.model_fields_set
        return errors + _source_errors(source, former.list_id if kept else _id_of(self.data_source_ref))

    def merge_into(self, type: str, former: MonitorSettings, kept_days: int) -> MonitorSettings:
        """Return the changed settings.

        Args:
            type: the type of its targets.
            former: the settings before.
            kept_days: the `retention_days` shown for a monitor without a choice; sent back, it is no choice.
        """
        names = MonitorSettings.__dataclass_fields__.keys() & self.model_fields_set
        given = {name: getattr(self, name) for name in names}
        if self.frequency is not None or self.cron is not None:
            given |= {"frequency": self.frequency, "cron": self.cron}
        else:
            given |= {"frequency": former.frequency, "cron": former.cron}
        if "tolerance" in given:
            given["tolerance"] = without_defaults(type, given["tolerance"])
        if "when" in given:
            given["when"] = stored_conditions(self.when)
        if former.retention_days is None and self.retention_days == kept_days:
            given["retention_days"] = None
        if self.data_source_ref is not None:
            given["list_id"] = _id_of(self.data_source_ref)
        elif self.data_source_type == "inline":
            given["list_id"] = None
        return replace(former, **given)


SomeBody = TypeVar("SomeBody", NewMonitor, MonitorChanges)


async def resolve_list(
    connection: Connection, account_id: UUID, body: SomeBody
) -> tuple[SomeBody, list[FieldError]]:
    """Replace the name of a list by its id; return an error if several lists have the name."""
    name = body.data_source_ref
    if not isinstance(name, str):
        return body, []
    found = (await named_objects.find_ids(connection, account_id, "list", [name])).get(name, [NOBODY])
    wrong: list[FieldError] = []
    if len(found) > 1:
        which = ", ".join(map(str, found))
        message = f"Several lists have this name; give the id of one: {which}."
        wrong.append(FieldError("/data_source_ref", "ambiguous_name", message))
    return body.model_copy(update={"data_source_ref": found[0]}), wrong


def _source_errors(source: DataSource | None, ref: UUID | None) -> list[FieldError]:
    if source == "list" and ref is None:
        message = "Name the list to watch, or let data_source_type be inline."
        return [FieldError("/data_source_ref", "required", message)]
    if source == "inline" and ref is not None:
        message = "Leave it out, or let data_source_type be list."
        return [FieldError("/data_source_ref", "not_allowed", message)]
    return []
