"""Whether what a page shows as an answer is what was answered.

A page shows one of many answers: ids, times and keys differ each time, and `…` stands for what is left out.
All else has to be as it is shown; what was answered may have more members than are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_KEY = re.compile(r"vedette_live_[\w…]+")
_VARYING = (_UUID, _TIME, _DATE, _KEY)
# Members whose number depends on the machine and the moment.
_MEASURED = re.compile(r"(.*_)?ms|eta_seconds|dataset_age")
_LEFT_OUT = "…"


def documents(output: str) -> list[Any]:
    """All JSON objects and arrays in an output, in order."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while start := re.compile(r"[\[{]").search(output, at):
        try:
            document, at = decoder.raw_decode(output, start.start())
            found.append(document)
        except ValueError:
            at = start.end()
    return found


def refusals(output: str) -> list[str]:
    """The codes of the problem documents in an output."""
    return [
        document["code"]
        for document in documents(output)
        if isinstance(document, dict) and {"code", "status", "request_id"} <= document.keys()
    ]


def differences(shown: Any, real: Any, at: str = "$") -> Iterator[str]:
    """In what the real answer is not as it is shown."""
    if shown == _LEFT_OUT:
        return
    if isinstance(shown, dict) and isinstance(real, dict):
        yield from _of_objects(cast("dict[str, Any]", shown), cast("dict[str, Any]", real), at)
    elif isinstance(shown, list) and isinstance(real, list):
        yield from _of_arrays(cast("list[Any]", shown), cast("list[Any]", real), at)
    elif isinstance(shown, str) and isinstance(real, str):
        if not _text_fits(shown, real):
            yield f"{at}: {shown!r} is shown, the answer is {real!r}"
    elif shown != real or isinstance(shown, bool) is not isinstance(real, bool):
        yield f"{at}: {shown!r} is shown, the answer is {real!r}"


def _of_objects(shown: dict[str, Any], real: dict[str, Any], at: str) -> Iterator[str]:
    for name, value in shown.items():
        if name == _LEFT_OUT:
            continue
        if name not in real:
            yield f"{at}.{name} is shown, the answer has {', '.join(real)}"
        elif _MEASURED.fullmatch(name) and isinstance(real[name], int | float):
            continue
        else:
            yield from differences(value, real[name], f"{at}.{name}")


def _of_arrays(shown: list[Any], real: list[Any], at: str) -> Iterator[str]:
    if _LEFT_OUT in shown:
        shown = shown[: shown.index(_LEFT_OUT)]
    elif len(shown) != len(real):
        yield f"{at}: {len(shown)} items are shown, the answer has {len(real)}: {real!r:.300}"
    for number, (one, other) in enumerate(zip(shown, real, strict=False)):
        yield from differences(one, other, f"{at}[{number}]")


def _text_fits(shown: str, real: str) -> bool:
    """Return whether the texts are alike but for what varies, and for what a `…` stands for."""
    for pattern in _VARYING:
        shown, real = pattern.sub("*", shown), pattern.sub("*", real)
    pattern = ".*".join(re.escape(part) for part in shown.split(_LEFT_OUT))
    return re.fullmatch(pattern, real, re.DOTALL) is not None


def missing_lines(shown: str, output: str) -> list[str]:
    """Say which lines are shown and were not written; a line of `…` stands for any number of others."""
    real = [" ".join(line.split()) for line in output.splitlines()]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    wanted = [line for line in lines if line and line != _LEFT_OUT]
    return [
        f"{line!r} was not written" for line in wanted if not any(_text_fits(line, other) for other in real)
    ]
