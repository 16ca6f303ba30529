"""Credits: the balance, the ledger, and automatic top-up."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from api.deps import Caller, ServicesDep, actor, require_scope
from api.http.cursors import Cursor, Limit, cursor_of, number_of
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from models.credits import credits, ledger, topups
from models.credits.credits import AutoTopUp, BalanceView
from models.credits.ledger import EntryView
from models.errors import FieldError, Invalid

router = APIRouter(prefix="/api/credits", tags=["credits"], route_class=StrictRoute)

Amount = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)]
_ABSENT: Any = None


class AutoTopUpWanted(Body):
    """The settings of automatic top-up: below `threshold`, `amount` is added, up to `monthly_cap` a month."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"enabled": True, "threshold": 100, "amount": 1000, "monthly_cap": 10000}]
        }
    )

    enabled: StrictBool = Field(description="Whether credits are added by themselves.")
    threshold: Amount = Field(
        default=_ABSENT, description="Below this balance they are added. Required to switch top-up on."
    )
    amount: Amount = Field(
        default=_ABSENT,
        description="How many are added at a time, at least a thousandth of `threshold`. Required to switch"
        " top-up on.",
    )
    monthly_cap: Amount | None = Field(
        None, description="How many are added in a UTC month at most; null for no bound."
    )

    def merge_into(self, former: AutoTopUp) -> AutoTopUp:
        """Return the chosen settings; if they switch top-up off, absent fields stay as they are.

        Raises:
            Invalid: they switch top-up on without saying when, or by how much.
        """
        given = self.model_dump(exclude_unset=True)
        if not self.enabled:
            return former.model_copy(update=given)
        if missing := [name for name in ("threshold", "amount") if name not in given]:
            raise Invalid([FieldError(f"/{name}", "required", "This field is required.") for name in missing])
        return AutoTopUp(**self.model_dump())


class CreditSettings(Body):
    """An account's settings for its credits, beside auto top-up."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"low_balance_threshold": 100}]})
    read_only = frozenset(BalanceView.model_fields) - {"low_balance_threshold"}

    low_balance_threshold: Amount = Field(description="Below this balance the account counts as low.")


class LedgerPage(BaseModel):
    """Entries, newest first."""

    entries: list[EntryView] = Field(description="The entries of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@router.get("")
async def get_credits(
    caller: Annotated[Caller, require_scope("credits")], services: ServicesDep
) -> BalanceView:
    """Get the balance, and the credits held for work in progress."""
    async with services.database.connection() as connection:
        return await credits.get_balance(connection, caller.account_id)


@router.patch("")
async def set_credit_settings(
    body: CreditSettings,
    request: Request,
    caller: Annotated[Caller, require_scope("credits")],
    services: ServicesDep,
) -> BalanceView:
    """Choose the balance under which the account counts as low."""
    async with services.database.transaction() as connection:
        who, threshold = actor(request, caller), body.low_balance_threshold
        return await credits.set_low_balance_threshold(connection, who, threshold)


@router.get("/ledger")
async def get_ledger(
    caller: Annotated[Caller, require_scope("credits")],
    services: ServicesDep,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> LedgerPage:
    """List every change of the balance; the sum of all amounts is the balance."""
    before = number_of(cursor, 18)
    async with services.database.connection() as connection:
        page, more = await ledger.list_entries(connection, caller.account_id, before=before, limit=limit)
    return LedgerPage(entries=page, next_cursor=cursor_of(more))


@router.put("/auto-topup")
async def set_auto_topup(
    body: AutoTopUpWanted,
    request: Request,
    caller: Annotated[Caller, require_scope("credits", session_only=True)],
    services: ServicesDep,
) -> AutoTopUp:
    """Choose when credits are added automatically.

    `{"enabled": false}` switches that off, and keeps the other settings.
    """
    async with services.database.transaction() as connection:
        former = await credits.get_balance(connection, caller.account_id)
        wanted = body.merge_into(former.auto_topup)
        await topups.configure(connection, actor(request, caller), wanted)
    return wanted
