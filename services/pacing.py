"""How long work that nobody waits for should wait for sources that are over their limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from models.jobs.jobs import JobView
from models.lookups.lookups import AllProvidersFailed
from models.lookups.source_quotas import share_of_waiting
from providers.lookup.lookup import AskedSources
from providers.lookup.result import REFUSING, LookupResult, within
from providers.registry import KINDS
from providers.sources.aggregate import UNIONS
from providers.sources.base import Kind, RemoteSource, Source
from settings import Rate

SHORT_SECONDS = 60.0
"""How long a source may have an answer wait that others have given already."""

PATIENCE_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0
"""After how long without any progress an answer is taken as it is, and a failure as one."""

OUTAGE_SECONDS = 120.0
"""The same for a failure where sources were left alone because they fail."""

# How long after a failure of another sort it is tried once more.
_AGAIN_SECONDS = (2.0, 10.0)


def wait_for_more(
    result: LookupResult,
    fields: Collection[str] | None,
    idle_seconds: float,
    asked: Collection[str] = frozenset(),
) -> float | None:
    """How long an answer should wait for sources that were over their limits; None if it is good as it is.

    Args:
        result: the answer.
        fields: the only dotted fields and blocks that are wanted; None for all.
        idle_seconds: for how long waiting has led to nothing.
        asked: the sources that were asked for it before, and gave nothing that was kept: while it waits for
            others they are asked again, and nobody waits for that.
    """
    limited = [
        (source, outcome.retry_after or 1.0)
        for source, outcome in result.outcomes
        if outcome.status == "rate_limited" and source.spec.name not in asked
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


def wait_for_any(
    error: AllProvidersFailed, tries: int, idle_seconds: float, refused: Collection[str] = frozenset()
) -> tuple[float, bool] | None:
    """How long what nobody has answered should wait; None if it has failed.

    Args:
        error: how.
        tries: how often it was tried once more because of another failure than limits.
        idle_seconds: for how long waiting has led to nothing.
        refused: the sources that have not taken this query before: they will not the next time.

    Returns:
        Seconds, and whether they are those until some source may be asked again.
    """
    waits = [*_waits(error, refused)]
    patient = min((wait for wait, longest in waits if wait + idle_seconds <= longest), default=None)
    if patient is not None:
        return patient, True
    if error.repeatable and not waits and tries < len(_AGAIN_SECONDS):
        return _AGAIN_SECONDS[tries], False
    return None


def _waits(error: AllProvidersFailed, refused: Collection[str]) -> Iterable[tuple[float, float]]:
    """When sources that were not asked can be asked again, and how long waiting for that may last."""
    for report in error.details["providers"]:
        if report["name"] in refused:
            continue
        seconds = float(report.get("retry_after") or 1)
        if report["status"] == "rate_limited" and report.get("detail") != REFUSING:
            yield seconds, LONGEST_SECONDS
        elif report.get("detail") in ("cooling_down", REFUSING):
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
    """Say how many seconds each source needs for so many targets of callers that wait.

    It takes so long if nobody else asks the source, and longer if somebody does. Left out are sources without
    limits, and those that can add nothing to what this machine knows.

    Args:
        asked: who is asked for these fields, by `Lookups.asked_for`.
        kind: `ip` …
        fields: the only dotted fields and blocks that are wanted; None for all.
        count: how many targets.
    """
    return [
        (source, _least_seconds(source.spec.rates, count)) for source in _paced_sources(asked, kind, fields)
    ]


def _paced_sources(asked: AskedSources, kind: str, fields: Collection[str] | None) -> Iterable[RemoteSource]:
    rules = KINDS[kind].rules
    here = {path for source in asked.local if source.spec.dataset for path in source.fields}
    # What lists tell, they tell of few.
    filled = {path for path in here if rules.get(path) not in (*UNIONS, "any_true")}
    needed = None if fields is None else KINDS[kind].needed(fields)
    for source in asked.remote:
        wanted = {path for path in source.fields if needed is None or within(path, needed)}
        if source.spec.rates and not wanted <= filled:
            yield source


def _least_seconds(rates: Iterable[Rate], count: int) -> float:
    """Return after how many seconds the last of so many requests can be sent."""
    return _seconds_until(sorted(rates, key=lambda rate: rate.seconds), max(0, count - 1))


def _seconds_until(rates: Sequence[Rate], number: int) -> float:
    """Return when a request can be sent before which there were so many, by windows from short to long."""
    if not rates:
        return 0
    *shorter, longest = rates
    windows, rest = divmod(number, share_of_waiting(longest))
    return max(windows * longest.seconds + _seconds_until(shorter, rest), _seconds_until(shorter, number))


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
    for source in _paced_sources(asked, job.type, job.fields):
        rates = source.spec.rates
        awaited = [rate for rate in rates if rate.seconds / share_of_waiting(rate) <= SHORT_SECONDS]
        # Rows for which a long window has no place are answered by others.
        rows = min([job.total_rows, *(share_of_waiting(rate) for rate in rates if rate not in awaited)])
        seconds = _least_seconds(awaited, rows)
        if seconds > SHORT_SECONDS:
            first = "" if rows == job.total_rows else "the first "
            others = "" if rows == job.total_rows else ", the others may go without it"
            message = (
                f"{_allowance(source)}: {first}{rows:,} rows{_of_one(source)} take"
                f" {_in_words(seconds)}{others}. Name other fields to go without it."
            )
            warnings.append({"code": "slow_source", "message": message})
    return warnings


def warnings_of_monitor(asked: AskedSources, count: int, period: float) -> list[dict[str, str]]:
    """Say which sources will have the runs of a monitor go at their pace, or need longer than a period.

    Args:
        asked: who is asked for its fields.
        count: how many targets it has.
        period: seconds from one run to the next.
    """
    warnings = name_left_out(asked)
    for source in asked.remote:
        rates = source.spec.rates
        seconds = _least_seconds(rates, count)
        if seconds <= SHORT_SECONDS:
            continue
        pace = f"{_allowance(source)}: {count:,} targets{_of_one(source)} take {_in_words(seconds)}"
        warnings.append({"code": "slow_source", "message": f"{pace}. Track other fields to go without it."})
        if seconds > period:
            message = (
                f"{pace}, and a run is due every {_in_words(period)}. A run says which targets it could not"
                " hear of, and the next one begins with these."
            )
            warnings.append({"code": "short_period", "message": message})
    return warnings


def _allowance(source: RemoteSource) -> str:
    each = " to each registry" if source.spec.per_server else ""
    return f"{source.spec.name} allows {' and '.join(map(_rate_in_words, source.spec.rates))}{each}"


def _of_one(source: RemoteSource) -> str:
    return " of one registry" if source.spec.per_server else ""


def _rate_in_words(rate: Rate) -> str:
    requests = "1 request" if rate.requests == 1 else f"{rate.requests:,} requests"
    return f"{requests} a second" if rate.seconds == 1 else f"{requests} in {_in_words(rate.seconds)}"


def _in_words(seconds: float) -> str:
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 120:
        return f"{round(seconds)} s"
    if minutes < 120:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{round(seconds / 86400)} days"
