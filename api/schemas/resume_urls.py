"""The resume URLs of a run, for its owner: of the steps that wait, or will."""

from __future__ import annotations

from api.deps import Services
from models.runs import resume_tokens
from models.runs.resume_tokens import StepPosition
from models.runs.run_views import RunView


def with_resume_urls(services: Services, view: RunView) -> RunView:
    """Return the run with its resume URLs, while it is in progress."""
    if view.completed_at is not None:
        return view
    urls = {
        step.id: resume_tokens.resume_url(
            services.keyring, services.settings.address, StepPosition(view.id, position)
        )
        for position, step in enumerate(view.steps)
        if step.type == "wait" and step.completed_at is None
    }
    return view.model_copy(update={"resume_urls": urls})
