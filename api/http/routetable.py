"""The application's routes by path: the handler, the methods and the template of a path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from starlette.convertors import Convertor
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

UNMATCHED = "unmatched"

_SCOPE_KEY = "vedette.route"
_INDEXED_SEGMENTS = 2


@dataclass(frozen=True)
class _Entry:
    template: str
    pattern: re.Pattern[str]
    convertors: dict[str, Convertor[Any]]
    methods: frozenset[str]
    route: BaseRoute
    app: ASGIApp


class RouteTable(BaseRoute):
    """Finds the route of a request by the text of its path, where FastAPI tries all routes in turn.

    FastAPI takes about 4 µs a route, twice for included ones: half a millisecond for a hundred of them. Place
    the table first among the application's routes. A path without parameters takes precedence over one with
    parameters, for every method: a method that it lacks is a 405. Other paths (404, mounts, paths that begin
    with a parameter, other 405s) are left to FastAPI. HEAD is answered where GET is, except for streams.
    """

    def __init__(self, app: FastAPI) -> None:
        self._fixed: dict[str, dict[str, _Entry]] = {}
        self._open: dict[tuple[str, ...], list[_Entry]] = {}
        self._all: list[_Entry] = []
        for entry in _entries(app):
            self._all.append(entry)
            if not entry.convertors:
                by_method = self._fixed.setdefault(entry.template, {})
                for method in entry.methods:
                    by_method.setdefault(method, entry)
            elif "{" not in "".join(_index(entry.template)):
                self._open.setdefault(_index(entry.template), []).append(entry)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the table has the route, and the scope that its handler needs."""
        if scope["type"] != "http":
            return Match.NONE, {}
        path, method = scope["path"], scope["method"]
        if path in self._fixed:
            entry = self._fixed[path].get(method)
            return Match.FULL, {_SCOPE_KEY: None} if entry is None else self._child(entry, {})
        # FastAPI has no HEAD for the paths that are left to it.
        for entry in self._all if method == "HEAD" else self._open.get(_index(path), ()):
            found = entry.pattern.match(path) if method in entry.methods else None
            if found:
                values = {
                    name: entry.convertors[name].convert(text) for name, text in found.groupdict().items()
                }
                return Match.FULL, self._child(entry, values)
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler of the matched route.

        Raises:
            HTTPException: 405, the path lacks the method.
        """
        entry: _Entry | None = scope[_SCOPE_KEY]
        if entry is None:
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
        await entry.app(scope, receive, send)

    @staticmethod
    def _child(entry: _Entry, values: dict[str, Any]) -> Scope:
        return {"path_params": values, "route": entry.route, _SCOPE_KEY: entry}

    def methods(self, path: str) -> list[str]:
        """Return the methods that `path` answers, sorted."""
        if path in self._fixed:
            return sorted(self._fixed[path])
        return sorted({m for entry in self._all if entry.pattern.match(path) for m in entry.methods})

    def template(self, scope: Scope) -> str:
        """Return the template of the matched route (`/api/keys/{id}`), or `unmatched`."""
        entry: _Entry | None = scope.get(_SCOPE_KEY)
        return UNMATCHED if entry is None else entry.template


def _index(path: str) -> tuple[str, ...]:
    """Return the lookup key of paths with parameters: the number of segments, and the first two."""
    segments = path.split("/")
    return (str(len(segments)), *segments[1 : 1 + _INDEXED_SEGMENTS])


def _entries(app: FastAPI) -> Iterator[_Entry]:
    for context in iter_route_contexts(app.routes):
        if isinstance(context.original_route, APIRoute):
            yield _entry(context, context.original_route)


def _entry(context: RouteContext, route: APIRoute) -> _Entry:
    assert context.path is not None
    pattern, template, convertors = compile_path(context.path)
    methods = frozenset(context.methods or ())
    # The server leaves the body of an answer to HEAD out; a stream would go on for nobody.
    if "GET" in methods and route.response_class is not StreamingResponse:
        methods |= {"HEAD"}
    return _Entry(template, pattern, convertors, methods, route, context.app)
