"""The inputs and outputs of runs, one by one, also those that do not fit in the run object."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from api.account_stream import AccountStream
from api.deps import Caller, Id, Services, ServicesDep, require_scope
from api.http.cursors import Cursor, Limit, cursor_of, number_of
from api.http.large_answers import LargeAnswer, turn_of
from api.http.strict_route import StrictRoute
from models.run_values import THE_RUN, ValueRef
from models.runs import run_pieces
from models.runs.run_pieces import ItemView, Source
from models.views import to_json
from services.run_pieces import stream_value

router = APIRouter(prefix="/api/workflows/runs", tags=["runs"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]
_JSON: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The value, sent while it is read.",
        "content": {"application/json": {"schema": {"description": "Any JSON."}}},
    }
}
_UNKNOWN = "unknown step"  # contains a character that step ids cannot have: 404


def _known_form(value: str) -> str:
    return value if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value) else _UNKNOWN


StepId = Annotated[str, BeforeValidator(_known_form), Path(description="The id of a step of the run.")]
Item = Annotated[int, Path(ge=0, le=32_767, description="The place of the item in the array, from 0.")]


class ItemPage(BaseModel):
    """Finished items of a step, in the order of the array."""

    items: list[ItemView] = Field(description="The items of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@router.get("/{run_id}/input", response_class=StreamingResponse, responses=_JSON)
async def get_run_input(run_id: Id, caller: Author, services: ServicesDep) -> Response:
    """Get the event that the run began with, however large."""
    return await _value(services, caller, ValueRef(run_id, THE_RUN, "input"))


@router.get("/{run_id}/output", response_class=StreamingResponse, responses=_JSON)
async def get_run_output(run_id: Id, caller: Author, services: ServicesDep) -> Response:
    """Get the output of a run, however large; null before it has one."""
    return await _value(services, caller, ValueRef(run_id, THE_RUN, "output"))


@router.get("/{run_id}/steps/{step_id}/input", response_class=StreamingResponse, responses=_JSON)
async def get_step_input(run_id: Id, step_id: StepId, caller: Author, services: ServicesDep) -> Response:
    """Get the input of a step, however large; null before it is done."""
    return await _value(services, caller, ValueRef(run_id, step_id, "input"))


@router.get("/{run_id}/steps/{step_id}/output", response_class=StreamingResponse, responses=_JSON)
async def get_step_output(run_id: Id, step_id: StepId, caller: Author, services: ServicesDep) -> Response:
    """Get the output of a step, however large: with `for_each` the array of all outputs.

    Null before the end.
    """
    return await _value(services, caller, ValueRef(run_id, step_id, "output"))


@router.get("/{run_id}/steps/{step_id}/items", response_model=ItemPage)
async def list_step_items(
    run_id: Id,
    step_id: StepId,
    caller: Author,
    services: ServicesDep,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response:
    """List the finished items of a step with `for_each`, in the order of the array.

    A page has 4 MiB at most: an output beyond that is `{omitted: true, bytes, url}`.
    """
    first = number_of(cursor, 5) or 0

    async def make() -> bytes:
        async with services.database.connection() as connection:
            items, after = await run_pieces.list_items(
                connection, caller.account_id, run_id, step_id, first=first, limit=limit
            )
        return to_json(ItemPage(items=items, next_cursor=cursor_of(after)))

    return LargeAnswer(turn_of(services, caller.account_id), make)


@router.get(
    "/{run_id}/steps/{step_id}/items/{item}/output", response_class=StreamingResponse, responses=_JSON
)
async def get_item_output(
    run_id: Id, step_id: StepId, item: Item, caller: Author, services: ServicesDep
) -> Response:
    """Get the output of a step with `for_each` for one item, however large; null before that is done."""
    async with services.database.connection() as connection:
        found = await run_pieces.find_item(connection, caller.account_id, run_id, step_id, item)
    return _stream_response(services, found)


async def _value(services: Services, caller: Caller, ref: ValueRef) -> Response:
    async with services.database.connection() as connection:
        found = await run_pieces.find_value(connection, caller.account_id, ref)
    return _stream_response(services, found)


def _stream_response(services: Services, found: Source | list[Source]) -> Response:
    return AccountStream(stream_value(services.database, found), media_type="application/json")
