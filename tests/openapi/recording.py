"""Calls operations by their names, and records what was sent and answered, without what differs by chance."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson

_BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_SHOWN = {
    r"vedette_live_[0-9A-Za-z]{32}": "vedette_live_0123456789abcdefghijklmnopqrstuv",
    r"whsec_[0-9A-Za-z+/=]+": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    r"eyJ[\w-]+\.[\w-]+\.[\w-]+": "the-token-of-the-session",
    r"/(ingest|resume)/[\w.-]{20,}": r"/\1/0123456789abcdefghijklmnopqrstuvwxyz",
    r"http://127\.0\.0\.1:\d+/hook": "https://hooks.example.com/vedette",
    r"http://127\.0\.0\.1:\d+": "$ADDRESS",
    r"\b127\.0\.0\.1:\d+": "127.0.0.1:11434",
}
_DURATIONS = {"ms", "duration_ms"}
_MOST = 3

Operation = dict[str, Any]


class Recorder:
    """Tells a story of requests; `told` has them, by the name of the operation."""

    def __init__(self, document: dict[str, Any], key: httpx.AsyncClient, session: httpx.AsyncClient) -> None:
        self.client = key
        self._session = session
        self._places = {
            operation["operationId"]: (method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }
        self._started = datetime.now(UTC)
        self._ids: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        self.told: dict[str, dict[str, Any]] = {}

    def whose(self, headers: dict[str, str]) -> Recorder:
        """The same story, told by somebody else."""
        other = object.__new__(Recorder)
        other.__dict__ = {**self.__dict__, "_headers": headers}
        return other

    async def __call__(
        self,
        name: str,
        body: Any = None,
        /,
        *,
        session: bool | None = None,
        files: Any = None,
        headers: dict[str, str] | None = None,
        **parameters: Any,
    ) -> Any:
        """Call an operation; what its path does not name goes into the query.

        Args:
            name: of the operation.
            body: JSON.
            session: send the session's token; False: no credential at all.
            files: of a form.
            headers: further ones.
            parameters: of the path and the query.
        """
        method, path, _ = self._places[name]
        inside = {one: value for one, value in parameters.items() if f"{{{one}}}" in path}
        query = {one: value for one, value in parameters.items() if one not in inside}
        client = self._session if session else self.client
        given = {**self._headers, **(headers or {})}
        if session is False:
            given["Authorization"] = ""
        answer = await client.request(
            method, path.format(**inside), params=query, headers=given, files=files,
            **({} if body is None else {"json": body}),
        )  # fmt: skip
        assert answer.is_success, f"{name}: {answer.status_code} {answer.text}"
        found = self.told.setdefault(name, {"answers": {}})
        if body is not None:
            found["request"] = self._steady(body)
        if answer.content and answer.headers["content-type"] == "application/json":
            found["answers"][str(answer.status_code)] = self._steady(answer.json())
            return answer.json()
        return None

    def _steady(self, value: Any, name: str = "") -> Any:
        """The same, with few items of arrays, and with what stands for ids, times, secrets and addresses."""
        if isinstance(value, dict):
            return {key: self._steady(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            # A schema that is shown beside its example has to allow it.
            return [self._steady(inner) for inner in (value if name == "enum" else value[:_MOST])]
        if isinstance(value, str) and name == "confirm":
            return "the-confirmation-of-the-dry-run"
        if isinstance(value, int) and name in _DURATIONS:
            return 12
        return self._steady_text(value) if isinstance(value, str) else value

    def _steady_text(self, text: str) -> str:
        for pattern, shown in _SHOWN.items():
            text = re.sub(pattern, shown, text)
        text = _UUID.sub(self._steady_id, text)
        return _TIME.sub(self._steady_time, text)

    def _steady_id(self, match: re.Match[str]) -> str:
        number = self._ids.setdefault(match[0], f"019b8d60-4f80-7000-8000-{len(self._ids) + 1:012x}")
        return number

    def _steady_time(self, match: re.Match[str]) -> str:
        moment = datetime.fromisoformat(match[0])
        if moment < self._started - timedelta(days=1):
            return match[0]
        shifted = _BEGIN + timedelta(seconds=round((moment - self._started).total_seconds()))
        return shifted.isoformat().replace("+00:00", "Z")


def written(told: dict[str, dict[str, Any]]) -> bytes:
    """The file with what was told."""
    return orjson.dumps(told, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def shape(value: Any) -> Any:
    """The names in a value; not its texts and numbers, nor which sources were asked."""
    if isinstance(value, dict):
        return {
            name: shape(inner)
            for name, inner in sorted(value.items())
            if name not in ("providers", "sources", "conflicts", "input", "output", "data", "payload")
        }
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return None
