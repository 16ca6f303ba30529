"""The waiting times of background work for sources that are over their limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from models.jobs.jobs import JobView
from models.lookups.lookups import AllProvidersFailed
from models.lookups.source_quotas import share_of_waiting
from providers.lookup.lookup import AskedSources
from providers.lookup.result import REFUSING, LookupResult, is_within
from providers.registry import KINDS
from providers.sources.aggregate import UNIONS
from providers.sources.base import RemoteSource, Source
from providers.sources.kind import Kind
from settings import Rate

SHORT_SECONDS = 60.0
"""The longest wait for a source when other sources have answered already."""

PATIENCE_SECONDS, LONGEST_SECONDS = 600.0, 86_400.0
"""Seconds without progress after which an answer is accepted as it is, and a failure as final."""

OUTAGE_SECONDS = 120.0
"""The same for a failure where sources were not asked because they keep failing."""

# The delays of the retries after another sort of failure.
_AGAIN_SECONDS = (2.0, 10.0)


def wait_for_more(
    result: LookupResult,
    fields: Collection[str] | None,
    idle_seconds: float,
    asked: Collection[str] = frozenset(),
) -> float | None:
    """Return how long an answer should wait for sources that were over their limits; None if it need not.

    Args:
        result: the answer.
        fields: the only dotted fields and blocks that are wanted; None for all.
        idle_seconds: how long waiting has brought no progress.
        asked: the sources that were asked for it before without an answer to store. They are asked again
            while it waits for others, but it does not wait for them.
    """
    limited = [
        (source, outcome.retry_after or 1.0)
        for source, outcome in result.outcomes
        if outcome.status == "rate_limited" and source.spec.name not in asked
    ]
    if not limited or idle_seconds > PATIENCE_SECONDS or _is_enough(result, fields):
        return None
    needed = None if fields is None else KINDS[result.kind].find_needed(fields)
    waits = (seconds for source, seconds in limited if needed is None or _is_missed(source, result, needed))
    return min((seconds for seconds in waits if seconds <= SHORT_SECONDS), default=None)


def _is_enough(result: LookupResult, fields: Collection[str] | None) -> bool:
    """Return whether all fields are wanted, and one of the kind's main fields is known."""
    main = KINDS[result.kind].main
    return fields is None and any(result.value(path) is not None for path in main)


def _is_missed(source: Source, result: LookupResult, needed: Collection[str]) -> bool:
    """Return whether a wanted field has no value without the source, or collects values of all sources."""
    kind = KINDS[result.kind]
    return any(
        is_within(path, needed) and (result.value(path) is None or _adds(kind, path))
        for path in source.fields
    )


def _adds(kind: Kind, path: str) -> bool:
    return kind.rules.get(path) in UNIONS


def wait_for_any(
    error: AllProvidersFailed, tries: int, idle_seconds: float, refused: Collection[str] = frozenset()
) -> tuple[float, bool] | None:
    """Return how long a failed lookup should wait; None if the failure is final.

    Args:
        error: the failure.
        tries: the retries after other failures than limits.
        idle_seconds: how long waiting has brought no progress.
        refused: the sources that rejected this query before, and will do so again.

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
    """Yield the seconds until each unasked source can be asked, and the longest allowed wait for it."""
    for report in error.details["providers"]:
        if report["name"] in refused:
            continue
        seconds = float(report.get("retry_after") or 1)
        if report["status"] == "rate_limited" and report.get("detail") != REFUSING:
            yield seconds, LONGEST_SECONDS
        elif report.get("detail") in ("cooling_down", REFUSING):
            yield seconds, OUTAGE_SECONDS


def name_left_out(asked: AskedSources) -> list[dict[str, str]]:
    """Return a list of warnings: the sources that jobs and monitors leave out, with the reason."""
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
    """Return how many seconds each source needs for this many targets of waiting callers.

    The time is longer if other callers use the source. Left out are sources without limits, and those that
    can add nothing to the data on this machine.

    Args:
        asked: the sources for these fields, from `Lookups.select_sources`.
        kind: `ip` …
        fields: the only dotted fields and blocks that are wanted; None for all.
        count: the number of targets.
    """
    return [
        (source, _least_seconds(source.spec.rates, count)) for source in _paced_sources(asked, kind, fields)
    ]


def _paced_sources(asked: AskedSources, kind: str, fields: Collection[str] | None) -> Iterable[RemoteSource]:
    rules = KINDS[kind].rules
    here = {path for source in asked.local if source.spec.dataset for path in source.fields}
    # Lists know few targets, so they do not make other sources needless.
    filled = {path for path in here if rules.get(path) not in (*UNIONS, "any_true")}
    needed = None if fields is None else KINDS[kind].find_needed(fields)
    for source in asked.remote:
        wanted = {path for path in source.fields if needed is None or is_within(path, needed)}
        if source.spec.rates and not wanted <= filled:
            yield source


def _least_seconds(rates: Iterable[Rate], count: int) -> float:
    """Return after how many seconds the last of this many requests can be sent."""
    return _seconds_until(sorted(rates, key=lambda rate: rate.seconds), max(0, count - 1))


def _seconds_until(rates: Sequence[Rate], number: int) -> float:
    """Return when a request can be sent after this many others; windows come from short to long."""
    if not rates:
        return 0
    *shorter, longest = rates
    windows, rest = divmod(number, share_of_waiting(longest))
    return max(windows * longest.seconds + _seconds_until(shorter, rest), _seconds_until(shorter, number))


def warnings_of(asked: AskedSources, job: JobView) -> list[dict[str, str]]:
    """Return warnings: the sources that a job leaves out, and those that slow it down, with the duration.

    Args:
        asked: the sources for its fields.
        job: the accepted job.
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
        # Rows beyond the capacity of a long window are answered without that source.
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
    """Return warnings: the sources that slow a monitor's runs down, or need longer than a period.

    Args:
        asked: the sources for its fields.
        count: the number of its targets.
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
