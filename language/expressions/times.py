"""Functions on times. None reads a clock: a time is an argument, such as `run.started_at`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from zoneinfo import ZoneInfo

from jmespath.functions import signature

from language.expressions.signatures import NUMBER, STRING, Functions, charge_string, invalid_value
from language.expressions.values import JSON, plain_number

_UNITS = {
    "seconds": timedelta(seconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# What reading a time or a zone's rules costs, in nodes.
_READ = 8
_LONGEST_TIME, _LONGEST_ZONE, _LONGEST_FORMAT = 64, 64, 200
# Names in English whatever the machine speaks.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


def moment_of(text: str) -> datetime | None:
    """Return the moment, in UTC, of a timestamp with a zone; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        # In UTC it may lie before the year 1 or after 9999.
        return None


def _moment(function: str, text: str) -> datetime:
    """Return the moment of a time with a zone, or the midnight in UTC at which a date begins."""
    if len(text) <= _LONGEST_TIME:
        moment = moment_of(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
        if moment is not None:
            return moment
    raise invalid_value(
        f"{function}() takes a time with a zone, 2026-12-24T18:00:00Z, or a date, 2026-12-24."
    )


def _unit(function: str, unit: str) -> timedelta:
    try:
        return _UNITS[unit]
    except KeyError:
        raise invalid_value(f"{function}() counts in 'seconds', 'minutes', 'hours' or 'days'.") from None


def _out_of_range(function: str) -> Exception:
    return invalid_value(f"{function}() would leave the years 1 to 9999.")


_CODES: dict[str, Callable[[datetime], str]] = {
    "Y": lambda time: f"{time.year:04}",
    "y": lambda time: f"{time.year % 100:02}",
    "m": lambda time: f"{time.month:02}",
    "d": lambda time: f"{time.day:02}",
    "H": lambda time: f"{time.hour:02}",
    "I": lambda time: f"{(time.hour - 1) % 12 + 1:02}",
    "p": lambda time: "AM" if time.hour < 12 else "PM",
    "M": lambda time: f"{time.minute:02}",
    "S": lambda time: f"{time.second:02}",
    "f": lambda time: f"{time.microsecond:06}",
    "A": lambda time: _DAYS[time.weekday()],
    "a": lambda time: _DAYS[time.weekday()][:3],
    "B": lambda time: _MONTHS[time.month - 1],
    "b": lambda time: _MONTHS[time.month - 1][:3],
    "j": lambda time: f"{time.timetuple().tm_yday:03}",
    "u": lambda time: str(time.isoweekday()),
    "G": lambda time: f"{time.isocalendar().year:04}",
    "V": lambda time: f"{time.isocalendar().week:02}",
    "s": lambda time: str((time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)),
    "z": lambda time: _offset(time).replace(":", ""),
    ":z": lambda time: _offset(time),
    "%": lambda time: "%",
}  # fmt: skip
_CODE = re.compile("%(:?.?)", re.DOTALL)
_TOKENS = re.compile(r"\b(?:yyyy|YYYY|dd|DD|HH|hh|mm|MM|ss|LLL+|MMM+|EEE+)\b")


def _offset(time: datetime) -> str:
    minutes = (time.utcoffset() or timedelta()) // timedelta(minutes=1)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _check_format(format: str) -> None:
    if len(format) > _LONGEST_FORMAT:
        raise invalid_value(f"format_date() takes a format of at most {_LONGEST_FORMAT} characters.")
    if "%" not in format and _TOKENS.search(format):
        raise invalid_value("format_date() takes codes with %: '%Y-%m-%d %H:%M:%S' for yyyy-MM-dd HH:mm:ss.")
    if any(code not in _CODES for code in _CODE.findall(format)):
        codes = ", ".join(f"%{code}" for code in _CODES)
        raise invalid_value(f"format_date() has no such code. There are {codes}.")


@lru_cache(1024)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfo's ways to say that there is none
        raise invalid_value(
            "format_date() takes the IANA name of a time zone, such as 'Europe/Berlin'."
        ) from None


def _check_zone(name: str) -> ZoneInfo:
    return _zone(name[:_LONGEST_ZONE])


class Times(Functions):
    """The functions on times."""

    @signature(STRING, NUMBER, {**STRING, "check": partial(_unit, "date_add")})
    def _func_date_add(self, time: str, amount: int | float, unit: str) -> JSON:
        self.budget.spend(_READ)
        moment, step = _moment("date_add", time), _unit("date_add", unit)
        try:
            return f"{(moment + amount * step).replace(tzinfo=None).isoformat()}Z"
        except (OverflowError, ValueError):  # ValueError: of a number that is none
            raise _out_of_range("date_add") from None

    @signature(STRING, STRING, {**STRING, "check": partial(_unit, "date_diff")})
    def _func_date_diff(self, later: str, earlier: str, unit: str) -> JSON:
        self.budget.spend(2 * _READ)
        between, step = _moment("date_diff", later) - _moment("date_diff", earlier), _unit("date_diff", unit)
        return between // step if not between % step else plain_number(between / step)

    @signature(
        STRING,
        {**STRING, "check": _check_format},
        {**STRING, "optional": True, "check": _check_zone},
    )
    def _func_format_date(self, time: str, format: str, timezone: str = "UTC") -> JSON:
        self.budget.spend(2 * _READ + min(len(format), _LONGEST_FORMAT))
        _check_format(format)
        zone, moment = _check_zone(timezone), _moment("format_date", time)
        try:
            local = moment.astimezone(zone)
        except OverflowError:
            raise _out_of_range("format_date") from None
        text = _CODE.sub(lambda code: _CODES[code[1]](local), format)
        charge_string(self.budget, len(text))
        return text
