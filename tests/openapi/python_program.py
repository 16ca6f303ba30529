"""What a user of a generated client writes: `python python_program.py <url> <key>`, the client beside it."""

import importlib
import pkgutil
import sys

import vedette_client  # type: ignore[import-not-found]
from vedette_client import AuthenticatedClient, Client
from vedette_client.api.errors import get_error_page
from vedette_client.api.ingest import ingest
from vedette_client.api.runs import list_runs
from vedette_client.api.workflows import (
    change_workflow,
    create_workflow,
    delete_workflow,
    get_workflow,
    run_workflow,
)
from vedette_client.models import (
    IngestJsonBody,
    ListRunsIncludeItem,
    NewWorkflow,
    Problem,
    RunBody,
    TransformConfig,
    TransformStep,
    WebhookTrigger,
    WorkflowChanges,
)
from vedette_client.types import UNSET

for module in pkgutil.walk_packages(vedette_client.__path__, "vedette_client."):
    importlib.import_module(module.name)

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)

# The fields that have a default may be left out.
step = TransformStep(id="greet", type_="transform", config=TransformConfig(expression="trigger.name"))
wanted = NewWorkflow(name="Greet", trigger=WebhookTrigger(type_="webhook"), steps=[step])
made = create_workflow.sync(client=client, body=wanted)
assert made.name == "Greet" and made.version == 1 and made.runs_total == 0, made
assert made.steps[0].to_dict()["config"]["expression"] == "trigger.name"

changed = change_workflow.sync(
    made.id, client=client, body=WorkflowChanges(description="Says hello"), if_match='"v1"'
)
assert (changed.version, changed.description, changed.name) == (2, "Says hello", "Greet"), changed

started = run_workflow.sync(made.id, client=client, body=RunBody(input_={"name": "Ann"}))
assert started.status == "queued", started

token = made.webhook_url.rpartition("/")[2]
event = IngestJsonBody.from_dict({"name": "Ben"})
first, second = (
    ingest.sync(token, client=Client(base_url=url), body=event, webhook_id="msg_1") for _ in range(2)
)
assert first.run_id == second.run_id != started.run_id, (first, second)

page = list_runs.sync(client=client, workflow_id=made.id)
assert page.total == 2 and {run.id for run in page.runs} == {first.run_id, started.run_id}, page
assert all(run.steps is UNSET and run.steps_total == 1 and run.test is False for run in page.runs), page
page = list_runs.sync(client=client, workflow_id=made.id, include=[ListRunsIncludeItem.STEPS])
assert all(run.steps[0].attempts == 0 and run.output is UNSET for run in page.runs), page

refused = create_workflow.sync(client=client, body=NewWorkflow(name=""))
assert isinstance(refused, Problem) and refused.errors is not UNSET, refused
assert [(error.pointer, error.code) for error in refused.errors] == [("/name", "too_short")], refused

deleted = delete_workflow.sync(made.id, client=client)
assert deleted.success is True, deleted
gone = get_workflow.sync(made.id, client=client)
assert isinstance(gone, Problem) and gone.type_.endswith("/errors/not_found"), gone
assert "<h1>not_found</h1>" in get_error_page.sync(gone.code, client=Client(base_url=url))
