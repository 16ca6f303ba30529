"""Bulk actions: retries and cancellations of many runs, which a filter chooses."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from api.deps import Caller, Id, Services, ServicesDep, actor, require_scope
from api.http.idempotency import Idempotent
from api.http.limits import limit_requests
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from api.schemas.run_filters import SoughtValue, Time, check_order
from models.errors import FieldError, Invalid
from models.identifiers import new_id
from models.runs import bulk_actions, confirmations
from models.runs.bulk_actions import BulkActionView
from models.runs.bulk_choice import STATUSES, ChosenRun, choose
from models.runs.confirmations import Action, RetriedVersion, Wish
from models.runs.run_queries import RunQuery
from models.runs.run_views import RunStatus, TriggerType
from services.retry_costs import find_highest_cost

router = APIRouter(prefix="/api", tags=["runs"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]


def _refuse_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("invalid_format", "A value has no NUL.")
    return text


_Name = Annotated[str, Field(max_length=100), AfterValidator(_refuse_nul)]


class RunFilter(Body):
    """The runs to change, by the filters of their list."""

    status: RunStatus | None = Field(
        default=None,
        description="Only those with this status; without it, all that the action can change.",
    )
    workflow_id: Id | None = Field(default=None, description="Only runs of this workflow.")
    since: Time | None = Field(default=None, description="Only runs accepted then or later.")
    until: Time | None = Field(default=None, description="Only runs accepted before then.")
    trigger: TriggerType | None = Field(default=None, description="Only runs that began by this.")
    error_code: _Name | None = Field(default=None, description="Only runs that failed with this code.")
    step: _Name | None = Field(default=None, description="Only runs that failed at this step.")
    parent_run_id: Id | None = Field(default=None, description="Only runs that this run started.")
    batch_id: Id | None = Field(default=None, description="Only runs of this batch.")
    q: SoughtValue | None = Field(
        default=None, description="Only runs with this value at a path of `search`; `*` ends a beginning."
    )

    @property
    def query(self) -> RunQuery:
        """Return the query of the list of runs with this filter."""
        return RunQuery(
            automation_id=self.workflow_id, status=self.status, since=self.since, until=self.until,
            trigger=self.trigger, error_code=self.error_code, step=self.step,
            parent_run_id=self.parent_run_id, upload_id=self.batch_id, q=self.q,
        )  # fmt: skip


class BulkActionBody(Body):
    """The runs, what to do to them, and the confirmation of the dry run before."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"filter": {"status": "failed"}, "action": "retry", "dry": True}]}
    )

    filter: RunFilter = Field(description="Which runs; `{}` for all of the account.")
    action: Action = Field(description="What to do to them.")
    version: RetriedVersion = Field(
        default="same", description="Of a retry: the version that the run ran, or the workflow's current one."
    )
    dry: bool = Field(default=False, description="Change nothing; tell how many runs there are.", strict=True)
    confirm: str | None = Field(
        default=None, max_length=200, description="The `confirm` of the dry run; needed unless `dry` is true."
    )


class BulkActionForecast(BaseModel):
    """The answer to a dry run."""

    count: int = Field(description="How many runs the action would take.")
    credits_max: int | None = Field(
        description="The most credits that the retries can cost; null if a workflow runs others."
    )
    confirm: str = Field(
        description="Send it with the same body within ten minutes, by the same credential, to do it."
    )


@router.post(
    "/workflows/runs/bulk",
    status_code=202,
    dependencies=[limit_requests("bulk"), Idempotent],
    response_model=BulkActionView,
    responses={
        200: {"model": BulkActionForecast, "description": "With `dry`: what the action would take."},
        **problems(
            "confirmation_expired", "confirmation_mismatch", "too_many_chosen", "too_many_bulk_actions",
            "rate_limited",
        ),
    },
)  # fmt: skip
async def change_runs(
    request: Request, body: BulkActionBody, caller: Author, services: ServicesDep
) -> Response:
    """Retry or cancel up to 10,000 runs, in the background; follow it at the `Location`.

    A dry run comes first: it answers how many runs there are, and the `confirm` that the action needs. The
    action takes none that was accepted, or has ended, after the dry run. A second request with one `confirm`
    answers the same action. Retries come after the runs that are started one by one; they wait where the
    account has no room for more runs.
    """
    _check(body)
    filters = body.filter.model_dump(mode="json", exclude_none=True)
    wish = Wish(caller.account_id, caller.credential_id, body.action, body.version, filters)
    if body.confirm is None:
        return await _answer_forecast(services, body, wish)
    action_id = confirmations.read_confirmation(services.keyring, body.confirm, wish)
    async with services.database.connection() as connection:
        is_known = await bulk_actions.exists(connection, caller.account_id, action_id)
    if not is_known:
        confirmations.check_age(action_id)
        run_ids = [run.id for run in await _choose(services, body, caller.account_id, action_id)]
        async with services.database.transaction() as connection:
            await bulk_actions.accept(
                connection, actor(request, caller), action_id, wish, run_ids, "lookups" in caller.scopes
            )
        services.notifier.notify(bulk_actions.STARTED_CHANNEL)
    async with services.database.connection() as connection:
        view = await bulk_actions.get(connection, caller.account_id, action_id)
    headers = {"Location": f"/api/bulk-actions/{action_id}"}
    return Response(view.model_dump_json(), 202, headers, "application/json")


@router.get("/bulk-actions/{action_id}")
async def get_bulk_action(action_id: Id, caller: Author, services: ServicesDep) -> BulkActionView:
    """Get a bulk action: how many runs are done, and which were left as they are."""
    async with services.database.connection() as connection:
        return await bulk_actions.get(connection, caller.account_id, action_id)


@router.post("/bulk-actions/{action_id}/cancel")
async def cancel_bulk_action(action_id: Id, caller: Author, services: ServicesDep) -> BulkActionView:
    """End a bulk action now; what it has done stays. One that has ended stays as it is."""
    async with services.database.transaction() as connection:
        await bulk_actions.cancel(connection, caller.account_id, action_id)
        return await bulk_actions.get(connection, caller.account_id, action_id)


def _check(body: BulkActionBody) -> None:
    """Refuse members that do not go together.

    Raises:
        Invalid: what is wrong.
    """
    errors: list[FieldError] = []
    if body.dry and body.confirm is not None:
        errors.append(FieldError("/confirm", "not_allowed", "A dry run needs no `confirm`."))
    if not body.dry and body.confirm is None:
        message = "Make a dry run first (`dry: true`), and send its `confirm`."
        errors.append(FieldError("/confirm", "required", message))
    if body.action == "cancel" and body.version != "same":
        errors.append(FieldError("/version", "not_allowed", "Only a retry has a version."))
    known = STATUSES[body.action]
    if body.filter.status is not None and body.filter.status not in known:
        message = f"The action takes runs that are {' or '.join(known)}."
        errors.append(FieldError("/filter/status", "not_allowed", message))
    if not check_order(body.filter.since, body.filter.until):
        message = "The end is not after the beginning (`since`)."
        errors.append(FieldError("/filter/until", "out_of_range", message))
    if errors:
        raise Invalid(errors)


async def _answer_forecast(services: Services, body: BulkActionBody, wish: Wish) -> Response:
    action_id = new_id()
    chosen = await _choose(services, body, wish.account_id, action_id)
    credits_max: int | None = 0
    if body.action == "retry" and services.settings.charges:
        async with services.database.connection() as connection:
            credits_max = await find_highest_cost(connection, chosen, body.version)
    confirm = confirmations.make_confirmation(services.keyring, action_id, wish)
    forecast = BulkActionForecast(count=len(chosen), credits_max=credits_max, confirm=confirm)
    return Response(forecast.model_dump_json(), 200, media_type="application/json")


async def _choose(
    services: Services, body: BulkActionBody, account_id: UUID, action_id: UUID
) -> list[ChosenRun]:
    async with services.database.transaction() as connection:
        return await choose(connection, account_id, body.action, body.filter.query, action_id)
