"""The outcomes of a lookup's sources, the fields that all answers share, and the list of sources."""

from __future__ import annotations

from datetime import date as Date
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from models.errors import DomainError
from models.views import View

Status = Literal[
    "ok", "empty", "cached", "skipped", "rejected", "timeout", "rate_limited", "auth_failed", "bad_response",
    "error",
]  # fmt: skip
FAILURES: frozenset[Status] = frozenset(
    {"rejected", "timeout", "rate_limited", "auth_failed", "bad_response", "error"}
)
"""The outcomes after which a source's fields are unknown, as opposed to known to be empty.

`rejected`: the source does not take this query. That has no meaning for other queries.
"""

State = Literal["ready", "no_key", "disabled", "cooling_down", "no_data"]
Commercial = Literal["yes", "no", "unknown"]


class AllProvidersFailed(DomainError):
    """Every source that was asked failed. Nothing is charged, and trying again later makes sense."""

    def __init__(self, providers: list[dict[str, Any]]) -> None:
        super().__init__(
            "all_providers_failed",
            "Every source that was asked failed; try again later.",
            providers=providers,
        )
        self.repeatable = any(report["status"] not in ("rejected", "skipped") for report in providers)
        """Return whether a later attempt may succeed: not if every source rejects this very query."""


class NoProvider(DomainError):
    """No source is set up that could answer."""

    def __init__(self, providers: list[dict[str, Any]], *, lacks_data: bool = False) -> None:
        message = "No source is set up for this; GET /api/providers says why."
        if lacks_data:
            message = "Lookup data is missing, and no other source is set up: run `vedette data fetch`."
        super().__init__("no_provider", message, providers=providers)


def _absent() -> Any:
    """Return the default of a field that an answer may leave out. Such a field is never null."""
    return None


class ProviderReport(BaseModel):
    """The result of one source in one lookup. Fields that do not apply are absent."""

    name: str = Field(description="The source.")
    status: Status = Field(description="What became of it.")
    ms: int = Field(description="How long it took, in milliseconds.")
    fields: list[str] = Field(description="The dotted fields that it filled.")
    fetched_at: datetime = Field(
        default_factory=_absent, description="When its answer was fetched, or its data on this machine."
    )
    cached: bool = Field(
        default_factory=_absent, description="True: its answer was kept from an earlier lookup."
    )
    stale: bool = Field(
        default_factory=_absent,
        description="True: that answer is older than it should be, since the source failed.",
    )
    retry_after: int = Field(
        default_factory=_absent, description="In how many seconds it can be asked again."
    )
    detail: str = Field(default_factory=_absent, description="Why it was skipped or failed.")
    server: str = Field(
        default_factory=_absent,
        description="Which of its servers failed or is over its limit, for a source with one a registry.",
    )
    failed: dict[str, str] = Field(
        default_factory=_absent,
        description="Of a source that has answered, the dotted fields that it could not find out, and why.",
    )


class Block(BaseModel):
    """A part of an answer, with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Reason(Block):
    """A reason for the verdict on a target."""

    code: str = Field(description="What speaks for it, as a stable snake_case word.")
    source: str = Field(description="Who says that.")
    field: str = Field(description="The dotted field that shows it.")
    weight: int = Field(
        description="How much it counts, in points: above zero against the target, below zero for it."
    )


class Verdict(Block):
    """The judgement of the target, from the answers of the sources."""

    level: Literal["clean", "suspicious", "malicious", "unknown"] = Field(
        description="The judgement: `malicious` from 80 points on, `suspicious` from 30, `clean` below 0;"
        " `unknown` in between, and where those who have not answered could say otherwise."
    )
    reasons: list[Reason] = Field(description="All that was weighed, the heaviest first.")


class LookupAnswer(Block):
    """The fields that every lookup's answer has after the fields of its kind."""

    credits: int = Field(description="What the lookup cost.")
    cached: bool = Field(description="Whether all answers of sources outside were kept from earlier lookups.")
    partial: bool = Field(
        description="Whether a source that is set up failed, was limited or lacks its data."
    )
    providers: list[ProviderReport] = Field(
        description="Who was asked, and what became of it; with `?providers=all`, those skipped too."
    )
    sources: dict[str, list[str]] = Field(description="By dotted field, the sources that gave its value.")
    conflicts: dict[str, dict[str, Any]] = Field(
        description="By dotted field, the value of each source, where they differ."
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Move these fields behind the kind's own; inheritance would put them first."""
        for name in LookupAnswer.model_fields:
            cls.model_fields[name] = cls.model_fields.pop(name)
        cls.model_rebuild(force=True)


class ProviderEvidence(BaseModel):
    """The evidence for the requests and answers of a source."""

    url: str = Field(description="The page, the specification or the recorded answer.")
    grade: Literal["verified", "second_hand"] = Field(
        description="`verified`: the vendor's own; `second_hand`: somebody else's, as a client of theirs."
    )
    date: Date = Field(description="The day on which it was read.")


class QuotaWindow(BaseModel):
    """One of the windows of requests that a source gives: any `seconds` hold at most `limit`."""

    server: str | None = Field(
        description="Which server has this window, for a source that asks one for each registry; null: all.",
    )
    limit: int = Field(description="How many requests there may be in any so many seconds.")
    seconds: int = Field(description="The length of the window.")
    used: int = Field(description="How many there were in the window that ends now.")
    left: int = Field(description="How many there may be now; who can wait leaves a fifth to the others.")
    resets_at: datetime | None = Field(
        description="When the oldest request leaves the window; null where there is none."
    )


class ProviderRow(View):
    """One source of one kind of lookup, as GET /api/providers lists it."""

    name: str = Field(description="The source.")
    kind: str = Field(description="The kind of lookup.")
    state: State = Field(description="Whether it can be asked, and if not, why.")
    reason: str | None = Field(
        None,
        description="Why it is off: `disabled`, `commercial`, `no_key`, `no_base_url` or `local_only`;"
        " null while it is on.",
    )
    fields: list[str] = Field(description="The dotted fields that it can fill.")
    licence: str = Field(description="The licence of its data.")
    commercial: Commercial = Field(
        description="Whether its terms allow commercial use; `unknown` where they do not say."
    )
    terms: str | None = Field(
        None, description="The page with its terms; null where there is none, or each server has its own."
    )
    bulk: bool = Field(description="Whether its terms allow to look many targets up.")
    attribution: str = Field(description="What is to be said where its data is shown.")
    address: str | None = Field(
        None,
        description="Where it is asked, or where its data on this machine is from, if the operator has set"
        " that; null: the vendor's own.",
    )
    evidence: ProviderEvidence = Field(description="Where one can read how it is asked and answers.")
    quota: list[QuotaWindow] | None = Field(
        None,
        description="How often it may be asked, by all that use its account together; all windows bind. null:"
        " without limit.",
    )
    dataset_age: int | None = Field(
        None,
        description="The age of its data on this machine, in seconds: since the day or month in its version,"
        " or else since it was fetched; null without such data.",
    )
    dataset_version: str | None = Field(
        None, description="What its publisher calls this version of that data, mostly a date."
    )
    last_success: datetime | None = Field(None, description="When it last answered; null for never.")
    error_rate: float | None = Field(
        None,
        description="The share of requests that failed of late, 0 to 1; null where there were none. Being"
        " limited is no failure.",
    )
    limited_rate: float | None = Field(
        None,
        description="The share of requests that came to nothing of late because the source was over its"
        " limit, 0 to 1; null where there were none.",
    )
