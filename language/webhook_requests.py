"""The request of a webhook step: its templates, rendered for one row, or the data of its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from language import templates
from language.expressions import JSON, Budget, ExpressionError
from language.step_evaluation import Scope
from language.steps import WebhookConfig


class Request(NamedTuple):
    """The request of a webhook step."""

    method: str
    url: str
    headers: dict[str, JSON]
    body: JSON


RUN_DATA = ("workflow", "run", "trigger")
"""The parts of the scope in the data of a run, beside an output."""


def run_data_of(scope: Scope, output_of: str | None, budget: Budget) -> JSON:
    """Return the run data that a webhook step without a body sends: no secrets, and nothing of `request`.

    Args:
        scope: of the step.
        output_of: the step whose output is included; None if none has completed yet.
        budget: the limit of its cost.

    Raises:
        ExpressionError: it is larger than a result may be.
    """
    run = scope["run"]
    assert isinstance(run, dict)
    data: dict[str, JSON] = {
        "workflow": scope["workflow"],
        # If the step may read resume URLs, its `run` contains them, so members are chosen.
        "run": {name: run[name] for name in ("id", "queued_at", "started_at")},
        "trigger": scope["trigger"],
        "output": None if output_of is None else scope[output_of],
    }
    if "item" in scope:
        data["item"] = scope["item"]
    try:
        budget.produce(data)
    except ExpressionError as error:
        message = "The data of the run is too much to be sent: give the step a body that says what to send."
        raise ExpressionError(error.code, message) from None
    return data


class RequestTemplates:
    """The templates of a webhook step, compiled once for all its rows.

    Attributes:
        secrets: the secrets that they name.
    """

    def __init__(self, config: WebhookConfig) -> None:
        self._method = config.method
        self._sends_run_data = config.sends_run_data
        self._url = templates.compile_template(config.url)
        self._headers = templates.compile_template(dict(config.headers))
        self._body = templates.compile_template(config.body)
        named = (*self._url.secrets, *self._headers.secrets, *self._body.secrets)
        self.secrets = tuple(dict.fromkeys(named))

    def render(
        self, scope: Scope, new_budget: Callable[[], Budget] = Budget, output_of: str | None = None
    ) -> Request:
        """Return the request for one row; the scope may have `secrets`.

        URL, headers and body have a budget each.

        Args:
            scope: the values that the templates may read.
            new_budget: makes a budget.
            output_of: as in `run_data_of`.

        Raises:
            ExpressionError: `missing_value` if a part of the URL has no value, or as `Template.render`.
        """
        url = self._url.render(scope, new_budget(), for_url=True)
        if not isinstance(url, str) or not url:
            raise ExpressionError("missing_value", "The URL's template gives no text.")
        headers = self._headers.render(scope, new_budget())
        assert isinstance(headers, dict)
        if self._sends_run_data:
            return Request(self._method, url, headers, run_data_of(scope, output_of, new_budget()))
        return Request(self._method, url, headers, self._body.render(scope, new_budget()))
