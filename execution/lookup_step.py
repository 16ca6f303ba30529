"""The lookup of one lookup step: the same call as for a request, charged to the account of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import psycopg

from engine.calls import AttemptResult, failed_attempt, unevaluated_attempt
from language import step_evaluation
from language.expressions import ExpressionError
from language.steps import LookupStep
from models.errors import DomainError
from models.lookups.lookups import AllProvidersFailed
from providers.company.kind import PEOPLE
from providers.lookup.billing import Payer
from providers.lookup.composition import Selection
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.websearch.kind import SHOWN, cut_results


async def look_up(
    lookups: Lookups, step: LookupStep, scope: Mapping[str, Any], account_id: UUID, reference: str
) -> AttemptResult:
    """Look up once.

    Args:
        lookups: the lookups of this process.
        step: the step.
        scope: the values that its expressions may read.
        account_id: the account that pays.
        reference: names the work, `run/<run id>/…`: a repetition is charged once, and that charge is counted
        for
            the run and returned even if the repetition fails.
    """
    query: str | None = None
    payer = Payer(account_id, reference, run_id=UUID(reference.split("/")[1]))
    try:
        query = step_evaluation.target_of(step.config, scope)
        result = await lookups.lookup(
            step.kind,
            query,
            LookupOptions(Selection(step.config.fields, limit=PEOPLE if step.kind == "company" else None)),
            pointer=step.config.pointer,
            payer=payer,
        )
    except ExpressionError as error:
        return unevaluated_attempt(error, query)
    except DomainError as error:
        if without_database(error):
            # No source is at fault, and this is no attempt at the step: the activity must be repeated.
            raise psycopg.OperationalError("No source can be asked without the database.") from error
        retryable = isinstance(error, AllProvidersFailed) and error.repeatable
        failed = failed_attempt(error.code, error.message, query, retryable=retryable)
        return failed._replace(credits_used=await lookups.count_charged(payer))
    answer = result.answer(shown="failed", fields=step.config.fields)
    output = cut_results(answer, SHOWN) if step.kind == "websearch" else answer
    return AttemptResult(query, output, credits_used=result.credits)


def without_database(error: DomainError) -> bool:
    """Return whether a lookup has failed because the database was away, and not because of a source."""
    reports: list[dict[str, Any]] = (
        error.details["providers"] if isinstance(error, AllProvidersFailed) else []
    )
    return any(report.get("detail") == "database" for report in reports)
