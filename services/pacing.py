"""How long work that nobody waits for should wait for sources that are over their limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from models.jobs.jobs import JobView
from models.lookups import AllProvidersFailed
from providers.aggregate import UNIONS
from providers.base import Kind, RemoteSource, Source
from providers.lookup import AskedSources
from providers.registry import KINDS
from providers.result import LookupResult, within
from settings import Rate

SHORT_SECONDS = 60.0
"""How long a source may have an answer wait that others have given already."""

PATIENCE_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0
"""After how long without any progress an answer is taken as it is, and a failure as one."""

OUTAGE_SECONDS = 120.0
"""The same for a failure where sources were left alone because they fail."""

# How long after a failure of another sort it is tried once more.
_AGAIN_SECONDS = (2.0, 10.0)


def wait_for_more(result: LookupResult, fields: Collection[str] | None, idle_seconds: float) -> float | None:
    """How long an answer should wait for sources that were over their limits; None if it is good as it is.

    Args:
        result: the answer.
        fields: the only dotted fields and blocks that are wanted; None for all.
        idle_seconds: for how long waiting has led to nothing.
    """
    limited = [
        (source, outcome.retry_after or 1.0)
        for source, outcome in result.outcomes
        if outcome.status == "rate_limited"
    ]
    if not limited or idle_seconds > PATIENCE_SECONDS or _is_enough(result, fields):
        return None
    needed = None if fields is None else KINDS[result.kind].needed(fields)
    waits = (seconds for source, seconds in limited if needed is None or _is_missed(source, result, needed))
    return min((seconds for seconds in waits if seconds <= SHORT_SECONDS), default=None)


def _is_enough(result: LookupResult, fields: Collection[str] | None) -> bool:
    """Whether all fields are wanted, and those that are the answer of the kind are there."""
    main = KINDS[result.kind].main
    return fields is None and any(result.value(path) is not None for path in main)


def _is_missed(source: Source, result: LookupResult, needed: Collection[str]) -> bool:
    """Whether a field that is wanted has no value without the source, or is one that all sources add to."""
    kind = KINDS[result.kind]
    return any(
        within(path, needed) and (result.value(path) is None or _adds(kind, path)) for path in source.fields
    )


def _adds(kind: Kind, path: str) -> bool:
    return kind.rules.get(path) in UNIONS


def wait_for_any(error: AllProvidersFailed, tries: int, idle_seconds: float) -> tuple[float, bool] | None:
    """How long what nobody has answered should wait; None if it has failed.

    Args:
        error: how.
        tries: how often it was tried once more because of another failure than limits.
        idle_seconds: for how long waiting has led to nothing.

    Returns:
        Seconds, and whether they are those until some source may be asked again.
    """
    waits = [*_waits(error)]
    patient = min((wait for wait, longest in waits if wait + idle_seconds <= longest), default=None)
    if patient is not None:
        return patient, True
    if error.repeatable and not waits and tries < len(_AGAIN_SECONDS):
        return _AGAIN_SECONDS[tries], False
    return None


def _waits(error: AllProvidersFailed) -> Iterable[tuple[float, float]]:
    """When sources that were not asked can be asked again, and how long waiting for that may last."""
    for report in error.details["providers"]:
        seconds = float(report.get("retry_after") or 1)
        if report["status"] == "rate_limited":
            yield seconds, LONGEST_SECONDS
        elif report.get("detail") == "cooling_down":
            yield seconds, OUTAGE_SECONDS


def name_left_out(asked: AskedSources) -> list[dict[str, str]]:
    """Say which sources jobs and monitors leave out, and why; a list of warnings."""
    return [
        {
            "code": "bulk_use",
            "message": f"{source.spec.name} is skipped: its terms allow no bulk use (VEDETTE_COMMERCIAL).",
        }
        for source in asked.left_out
    ]


def pace_of(
    asked: AskedSources, kind: str, fields: Collection[str] | None, count: int
) -> list[tuple[RemoteSource, float]]:
    """Say how long each source needs for so many targets, if nobody else asks it.

    A source without limits is left out, and one that can add nothing to what this machine knows.

    Args:
        asked: who is asked for these fields, by `Lookups.asked_for`.
        kind: `ip` …
        fields: the only dotted fields and blocks that are wanted; None for all.
        count: how many targets.
    """
    rules = KINDS[kind].rules
    here = {path for source in asked.local if source.spec.dataset for path in source.fields}
    # What lists tell, they tell of few.
    filled = {path for path in here if rules.get(path) not in (*UNIONS, "any_true")}
    needed = None if fields is None else KINDS[kind].needed(fields)
    paces: list[tuple[RemoteSource, float]] = []
    for source in asked.remote:
        rate = source.spec.rate
        wanted = {path for path in source.fields if needed is None or within(path, needed)}
        if rate is not None and not wanted <= filled:
            paces.append((source, count * rate.seconds / rate.requests))
    return paces


def warnings_of(asked: AskedSources, job: JobView) -> list[dict[str, str]]:
    """Say which sources a job leaves out, which will have it go at their pace, and how long that takes.

    Args:
        asked: who is asked for its fields.
        job: as it was accepted.
    """
    return [*name_left_out(asked), *_slow_sources(asked, job)]


def _slow_sources(asked: AskedSources, job: JobView) -> list[dict[str, str]]:
    here = {path for source in asked.local if source.spec.dataset for path in source.fields}
    if job.fields is None and not KINDS[job.type].main.isdisjoint(here):
        return []
    warnings: list[dict[str, str]] = []
    for source, seconds in pace_of(asked, job.type, job.fields, job.total_rows):
        rate = source.spec.rate
        assert rate is not None
        if seconds > SHORT_SECONDS >= rate.seconds / rate.requests:
            message = (
                f"{source.spec.name} allows {_rate_in_words(rate)}: "
                f"{job.total_rows:,} rows take {_in_words(seconds)}. Name other fields to go without it."
            )
            warnings.append({"code": "slow_source", "message": message})
    return warnings


def _rate_in_words(rate: Rate) -> str:
    requests = "1 request" if rate.requests == 1 else f"{rate.requests:,} requests"
    return f"{requests} a second" if rate.seconds == 1 else f"{requests} in {_in_words(rate.seconds)}"


def _in_words(seconds: float) -> str:
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 120:
        return f"{round(seconds)} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{round(seconds / 86400)} days"
