"""The route class of every router: strict bodies, strict query strings, idempotency keys."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute

from api.http import query
from api.http.idempotency import Endpoint, answer_once, claiming
from api.http.json_body import MAX_BODY_BYTES, StrictRequest
from models.errors import FieldError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def _as_found(error: FieldError) -> dict[str, Any]:
    """Return an unknown parameter in the form of FastAPI's errors."""
    return {"type": error.code, "loc": ("query", error.parameter), "msg": error.message}


class StrictRoute(APIRoute):
    """The route class of every router.

    It adds strict bodies (`max_body_size` is the limit), strict query strings, and idempotency keys.
    """

    def __init__(
        self, path: str, endpoint: Endpoint, *, max_body_size: int | None = None, **options: Any
    ) -> None:
        # FastAPI's own limit answers in plain text, bypassing our error handlers, so ours replaces it.
        self._limit = MAX_BODY_BYTES if max_body_size is None else max_body_size
        super().__init__(path, claiming(endpoint), **options)

    def get_route_handler(self) -> Handler:
        """Return FastAPI's handler, wrapped to receive a strict request."""
        handle = self._handler()
        parameters = query.names_of(self.dependant)

        async def answer_strictly(request: Request) -> Response:
            asked = StrictRequest(request, self._limit, parameters)
            try:
                return await answer_once(asked, handle)
            except RequestValidationError as error:
                unknown = [_as_found(one) for one in asked.unknown_parameters()]
                raise RequestValidationError([*error.errors(), *unknown], body=error.body) from None

        return answer_strictly

    def _handler(self) -> Handler:
        """Return the handler of a strict request."""
        return super().get_route_handler()
