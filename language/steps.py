"""The models of a workflow's steps, one a type, with their configurations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from language import expressions
from language.durations import seconds_of
from language.expressions import Expression
from language.expressions.parser import MAX_TEXT
from language.triggers import HeaderName, Ref

MAX_STEPS = 100
MAX_DELAY_SECONDS = 365 * 86400
MAX_ITEMS = 1000
MAX_CONCURRENCY = 50
StepId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Label = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
MappingName = Annotated[str, StringConstraints(max_length=100)]
StatusPattern = Annotated[
    str,
    StringConstraints(pattern=r"^[1-5]([0-9][0-9]|xx)$"),
    BeforeValidator(
        lambda status: str(status) if type(status) is int else status, json_schema_input_type=str | int
    ),
]


class StrictModel(BaseModel):
    """Strict about names and types, so that a typing error never passes silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Retry(StrictModel):
    """The times of repeated attempts: after `initial_seconds`, then `backoff` times longer each."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3, description="How often it is tried in all."
    )
    initial_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=1, description="The pause before the second attempt."
    )
    backoff: Annotated[float, Field(ge=1, le=10)] = Field(
        default=2, description="By how much each further pause is longer."
    )
    max_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(default=60, description="The longest pause.")

    def delay(self, failed_attempts: int) -> float:
        """Return the seconds to wait after the given number of failed attempts (≥ 1)."""
        return min(self.initial_seconds * self.backoff ** (failed_attempts - 1), self.max_seconds)


class StepBase(StrictModel):
    """The common fields of every step."""

    id: StepId = Field(description="Unique in the workflow; later steps refer to the output by it.")
    name: Label | None = Field(None, description="For people.")
    needs: list[StepId] | None = Field(
        default=None,
        max_length=MAX_STEPS,
        description="The steps that must be done first; by default the one before in the list.",
    )
    condition: Text | None = Field(
        default=None,
        alias="if",
        description="An expression, evaluated once, when the step would begin: is it false as a condition is,"
        " the step is skipped.",
    )
    on_error: Literal["fail", "continue"] | list[StepId] = Field(
        default="fail",
        description="What follows when the step has failed for good: the run fails, or goes on without the "
        "output, or goes on with these later steps, which run only then.",
    )

    model_config = ConfigDict(serialize_by_alias=True)


Share = Annotated[float, Field(gt=0, le=1)]


class OnItems(StrictModel):
    """The effect of failing items on their step."""

    fail_if: Share | Literal["any", "all", "never"] = Field(
        default="all",
        description="How many must fail, once all are done, to fail the step: any, all, never, or a share of"
        " all items, such as 0.25. A step without items completes.",
    )


class IteratingStep(StepBase):
    """The common fields of steps that can run once for each item of an array."""

    for_each: Text | None = Field(
        default=None,
        description="An expression that gives the array; the output is an array in the same order. With "
        '`on_error: continue` an item that fails gives `{"error"}`, else it fails the step.',
    )
    on_items: OnItems | None = Field(
        default=None,
        description="With `for_each` and `on_error: continue`, which failed items fail the step, and the run"
        " with it; by default all.",
    )
    max_concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY)] = Field(
        default=MAX_CONCURRENCY, description="How many items may be at work at a time."
    )


class CallingBase(IteratingStep):
    """The common fields of steps that call other services."""

    retry: Retry = Field(
        default_factory=lambda: Retry(),
        description="When a failed attempt is repeated; by default after 1 s and 2 s, 3 attempts in all.",
    )
    timeout: float | None = Field(
        default=None, gt=0, le=86400, description="Bounds all attempts and pauses together, in seconds."
    )


class LookupConfig(StrictModel):
    """The target of a lookup, in either `field` or `value`."""

    field: Text | None = Field(
        default=None,
        description="A reference to the target: `trigger.ip`. A bare name is the output of the step with this"
        " id; without such a step a field of the trigger.",
    )
    value: Text | None = Field(None, description="A template that gives the target: `{{ trigger.ip }}`.")
    fields: list[Text] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="The only dotted fields of the answer that matter: sources that fill none are not asked.",
    )

    @property
    def pointer(self) -> str:
        """The pointer to the target."""
        return "/value" if self.field is None else "/field"


class LookupStep(CallingBase):
    """Looks up a target; the output is the lookup's answer."""

    type: Literal[
        "email_lookup",
        "phone_lookup",
        "company_lookup",
        "domain_lookup",
        "ip_lookup",
        "darkweb_lookup",
        "breach_lookup",
        "username_lookup",
        "websearch_lookup",
        "validate_lookup",
    ] = Field(description="What is looked up.")
    config: LookupConfig = Field(description="The target.")

    @property
    def kind(self) -> str:
        """The kind of lookup: `ip`, `email` and so on."""
        return self.type.removesuffix("_lookup")


class ConditionConfig(StrictModel):
    """`then` and `else` list later steps that run only on that branch; without both, false ends the run."""

    expression: Text = Field(description="What decides; false are null, `false`, `''`, `[]` and `{}`.")
    then: list[StepId] | None = Field(None, description="Later steps that run only if it is true.")
    otherwise: list[StepId] | None = Field(
        default=None, alias="else", description="Later steps that run only if it is false."
    )

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)


class ConditionStep(StepBase):
    """Decides; the output is `{"result": true|false}`."""

    type: Literal["condition"] = Field(description="Always `condition`.")
    config: ConditionConfig = Field(description="The condition and its branches.")


class TransformConfig(StrictModel):
    """Either one expression, or a mapping of names to expressions."""

    expression: Text | None = Field(None, description="One expression: the output is its value.")
    mapping: dict[MappingName, Text] | None = Field(
        default=None,
        min_length=1,
        description="Names and expressions: the output is an object of their values.",
    )


class TransformStep(IteratingStep):
    """Makes new data from existing data; the output is its value."""

    type: Literal["transform"] = Field(description="Always `transform`.")
    config: TransformConfig = Field(description="What to make.")


class WebhookConfig(StrictModel):
    """An HTTP request, its parts with templates."""

    url: Text = Field(description="Where to; may have templates.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = Field(
        default="POST", description="The HTTP method."
    )
    headers: dict[HeaderName, str] = Field(
        default_factory=dict[str, str],
        max_length=50,
        description="Headers by name; their values may have templates.",
    )
    body: Any = Field(
        default=None,
        description="Any JSON, its strings may be templates; a string is sent as it is. Without one a POST,"
        " PUT or PATCH sends `{workflow, run, trigger, output}`, with `item` in a `for_each`.",
    )
    timeout: float = Field(15, gt=0, le=120, description="Bounds one attempt, in seconds.")
    success: StatusPattern | Annotated[list[StatusPattern], Field(min_length=1)] = Field(
        default="2xx", description="The statuses that count as success: `200`, `2xx`, or a list of them."
    )
    follow_redirects: bool = Field(default=False, description="Whether to follow up to five redirects.")

    @property
    def sends_run_data(self) -> bool:
        """Return whether it sends the data of the run, because it has no body of its own."""
        return self.body is None and self.method in ("POST", "PUT", "PATCH")

    def is_success(self, status: int) -> bool:
        """Return whether a status is one of `success`."""
        wanted = str(status), f"{status // 100}xx"
        if isinstance(self.success, str):
            return self.success in wanted
        return any(pattern in wanted for pattern in self.success)


class WebhookStep(CallingBase):
    """Sends an HTTP request; the output is `{"status", "headers", "body"}`."""

    type: Literal["webhook"] = Field(description="Always `webhook`.")
    config: WebhookConfig = Field(description="The request.")


class DelayConfig(StrictModel):
    """The length of a wait, in one of these fields. `duration` and `until` may be templates."""

    seconds: float | None = Field(None, gt=0, description="Seconds to wait.")
    minutes: float | None = Field(None, gt=0, description="Minutes to wait.")
    hours: float | None = Field(None, gt=0, description="Hours to wait.")
    days: float | None = Field(None, gt=0, description="Days to wait.")
    duration: Text | None = Field(
        default=None, description="`5m`, `1h30m`, `2d` or ISO 8601's `PT5M`, or a template that gives one."
    )
    until: Text | None = Field(None, description="A timestamp with its zone, or a template that gives one.")

    @property
    def given_fields(self) -> dict[str, Any]:
        """The fields that are set."""
        return self.model_dump(exclude_none=True)

    @property
    def template(self) -> str | None:
        """The template that a run evaluates to learn the end of the delay; None if the end is known."""
        return self.duration if self.duration is not None and "{{" in self.duration else self.until

    @property
    def constant_seconds(self) -> float | None:
        """The seconds to wait, if known; None with a template, or if it is not a duration."""
        if self.duration is not None:
            return seconds_of(self.duration)
        units = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
        return next((value * units[unit] for unit, value in self.given_fields.items() if unit in units), None)


class DelayStep(StepBase):
    """Waits; the output is `{"until"}`, the end of the wait."""

    type: Literal["delay"] = Field(description="Always `delay`.")
    config: DelayConfig = Field(description="How long.")


class WaitConfig(StrictModel):
    """The page that asks a person, the answer it accepts, and the time allowed for it."""

    title: Text | None = Field(
        default=None,
        description="What the page at the resume URL asks, in a line: a template, shown as text.",
    )
    message: Text | None = Field(
        default=None, description="What else the page says, in paragraphs perhaps: a template, shown as text."
    )
    timeout: float = Field(
        default=MAX_DELAY_SECONDS,
        gt=0,
        le=MAX_DELAY_SECONDS,
        description="Seconds to wait; a year by default.",
    )
    input_schema: dict[str, Any] | None = Field(
        default=None,
        description="A JSON Schema (draft 2020-12) that what is posted must meet; else it is refused, and the"
        " run waits on.",
    )
    on_timeout: Literal["fail", "continue"] = Field(
        default="fail",
        description="What follows when nobody has resumed it in time: the step fails, or goes on with"
        " `resumed: false`.",
    )


class WaitStep(StepBase):
    """Waits for a post to its resume URL; the output is `{"resumed", "body", "at"}`."""

    type: Literal["wait"] = Field(description="Always `wait`.")
    config: WaitConfig = Field(default_factory=lambda: WaitConfig(), description="For what, and how long.")


class WorkflowConfig(StrictModel):
    """Another workflow of the account, and its input."""

    workflow_id: Ref = Field(description="The workflow to run: its version when the step begins.")
    input: Any = Field(None, description="Any JSON with templates: the `trigger` of its expressions.")


class WorkflowStep(IteratingStep):
    """Runs another workflow; the output is that of its run."""

    type: Literal["workflow"] = Field(description="Always `workflow`.")
    config: WorkflowConfig = Field(description="Which, and with what.")


class RememberConfig(StrictModel):
    """The keys to remember, and how long."""

    key: Text | None = Field(
        None, description="A template that gives what to remember: text, at most 512 characters."
    )
    keys: Text | None = Field(None, description="Or an expression that gives up to 1,000 such texts.")
    ttl: float = Field(
        gt=0, le=MAX_DELAY_SECONDS, description="Seconds, from the first time; then it is forgotten."
    )
    renew: bool = Field(default=False, description="Count `ttl` from the last time.")


class RememberStep(StepBase):
    """Remembers a key, or several, for all runs of the workflow.

    The output is `{"seen", "first_at", "count"}`, or with `keys` `{"new", "known"}`.
    """

    type: Literal["remember"] = Field(description="Always `remember`.")
    config: RememberConfig = Field(description="What, and for how long.")


class EmitConfig(StrictModel):
    """The event to send, and its data."""

    event: Literal["workflow.alert"] = Field(description="The type of the event: `workflow.alert`.")
    data: Any = Field(
        None, description="Any JSON with templates, of 64 KiB at most: the `data` of the alert's data."
    )


class EmitStep(StepBase):
    """Send an event to the account's webhooks, once; the output is `{"event_id", "webhooks"}`."""

    type: Literal["emit"] = Field(description="Always `emit`.")
    config: EmitConfig = Field(description="Which event, and with what.")


CallingStep = LookupStep | WebhookStep
Step = Annotated[
    LookupStep
    | ConditionStep
    | DelayStep
    | TransformStep
    | WebhookStep
    | WaitStep
    | WorkflowStep
    | RememberStep
    | EmitStep,
    Field(discriminator="type"),
]


def field_expression(reference: str) -> Expression:
    """Return the expression for a `field`: a root up to the first dot, then a path."""
    if "{{" in reference:
        return expressions.compile(reference)  # which reports the error in it
    root, dot, rest = reference.partition(".")
    return expressions.compile(f'"{root}"{dot}{rest}' if '"' not in root else reference)
