"""One lookup step's lookup for one row: the same call as a request's, charged to the account of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from activities.outcome import Outcome, failure, not_evaluated
from models.errors import ModelError
from models.lookups import AllProvidersFailed
from providers.charging import Payer
from providers.company.kind import PEOPLE
from providers.lookup import Lookups
from providers.websearch.kind import SHOWN, cut
from workflows import pure
from workflows.definition import LookupStep
from workflows.expressions import ExpressionError


async def look_up(
    lookups: Lookups, step: LookupStep, scope: Mapping[str, Any], account_id: UUID, reference: str
) -> Outcome:
    """Look up once; however often that is repeated, `reference` is charged once."""
    query: str | None = None
    try:
        query = pure.target_of(step.config, scope)
        result = await lookups.lookup(
            step.kind,
            query,
            pointer=step.config.pointer,
            fields=step.config.fields,
            limit=PEOPLE if step.kind == "company" else None,
            payer=Payer(account_id, reference),
        )
    except ExpressionError as error:
        return not_evaluated(error, query)
    except ModelError as error:
        return failure(error.code, error.message, query, retryable=isinstance(error, AllProvidersFailed))
    answer = result.answer()
    output = cut(answer, SHOWN) if step.kind == "websearch" else answer
    return Outcome(query, output, credits_used=result.credits)
