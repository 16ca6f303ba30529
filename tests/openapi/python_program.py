"""What a user of a generated client writes: `python python_program.py <url> <key>`, the client beside it."""

import importlib
import pkgutil
import sys

import vedette_client  # type: ignore[import-not-found]
from vedette_client import AuthenticatedClient, Client
from vedette_client.api.bulk import search_ips
from vedette_client.api.credits_ import get_credits, get_ledger
from vedette_client.api.jobs import create_job, get_job, list_jobs
from vedette_client.api.keys import create_key, delete_key, list_keys
from vedette_client.api.lists import add_targets, create_list, list_lists, list_targets
from vedette_client.api.lookups import look_up_ip, look_up_phone
from vedette_client.api.monitors import create_monitor, list_monitors, pause_monitor
from vedette_client.api.runs import list_runs
from vedette_client.api.service import get_error_page
from vedette_client.api.templates import list_workflow_templates
from vedette_client.api.triggers import ingest
from vedette_client.api.workflows import (
    change_workflow,
    create_workflow,
    delete_workflow,
    get_workflow,
    run_workflow,
    validate_workflow,
)
from vedette_client.models import (
    CreateJobJsonJobOfTargets,
    CreateJobJsonJobOfTargetsType,
    IngestJsonBody,
    IpQueries,
    IpQuery,
    ListRunsIncludeItem,
    NewKey,
    NewKeyScopesType0Item,
    NewList,
    NewListTypeType0,
    NewMonitor,
    NewMonitorMonitorType,
    NewWorkflow,
    PhoneQuery,
    Problem,
    RunBody,
    Targets,
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

# Lookups: what nobody knows is None, and what was left out is UNSET.
address = look_up_ip.sync(client=client, body=IpQuery(ip="10.0.0.1"))
assert (address.ip_address, address.credits_) == ("10.0.0.1", 0), address
assert address.location.city is None and isinstance(address.sources.to_dict(), dict), address
pruned = look_up_ip.sync(client=client, body=IpQuery(ip="10.0.0.1"), fields="location")
assert pruned.asn is UNSET and pruned.location is not UNSET, pruned
number = look_up_phone.sync(client=client, body=PhoneQuery(phone="+14155552671"))
assert number.valid is True and number.country.code == "US", number
several = search_ips.sync(client=client, body=IpQueries(queries=["10.0.0.1", "no address"]))
assert several.credits_used == 0 and several.results[1].error.code == "invalid_ip", several

# Lists and monitors.
servers = create_list.sync(client=client, body=NewList(name="Servers", type_=NewListTypeType0.IP))
added = add_targets.sync(servers.id, client=client, body=Targets(targets=["8.8.8.8", "8.8.8.8"]))
assert (added.added, added.duplicates) == (1, 1), added
assert list_targets.sync(servers.id, client=client) == ["8.8.8.8"]
assert [one.target_count for one in list_lists.sync(client=client)] == [1]
watched = NewMonitor(name="Servers", monitor_type=NewMonitorMonitorType.IP, targets=["1.1.1.1"])
monitor = create_monitor.sync(client=client, body=watched)
assert pause_monitor.sync(monitor.id, client=client).status == "paused"
assert [one.id for one in list_monitors.sync(client=client).monitors] == [monitor.id]

# Jobs, page by page.
for name in ("first", "second"):
    wanted = CreateJobJsonJobOfTargets(type_=CreateJobJsonJobOfTargetsType.IP, targets=["8.8.8.8"], name=name)
    job = create_job.sync(client=client, body=wanted)
assert get_job.sync(job.id, client=client).total_rows == 1
page = list_jobs.sync(client=client, limit=1)
rest = list_jobs.sync(client=client, limit=1, cursor=page.next_cursor)
assert [one.name for one in page.jobs + rest.jobs] == ["second", "first"], (page, rest)
assert rest.next_cursor is None

# A workflow from a template, and what is wrong with one that could not be saved.
template = list_workflow_templates.sync(client=client).templates[0]
cloned = create_workflow.sync(
    client=client, body=NewWorkflow(name="From a template", template_id=template.id)
)
assert len(cloned.steps) == len(template.steps) > 0, cloned
step = TransformStep(id="greet", type_="transform", config=TransformConfig(expression="nobody.name"))
validity = validate_workflow.sync(client=client, body=NewWorkflow(name="Greet", steps=[step]))
assert validity.valid is False and validity.errors[0].pointer == "/steps/0/config/expression", validity

# Credits and keys; a key that may not do a thing is told so.
assert get_credits.sync(client=client).balance == 4  # one was for the phone number
assert get_ledger.sync(client=client, limit=1).entries[0].balance_after == 4
made = create_key.sync(client=client, body=NewKey(name="CI", scopes=[NewKeyScopesType0Item.CREDITS]))
weak = AuthenticatedClient(base_url=url, token=made.key)
refused = list_jobs.sync(client=weak)
assert isinstance(refused, Problem) and (refused.status, refused.code) == (403, "insufficient_scope"), refused
assert delete_key.sync(made.id, client=client).success is True
assert made.id in {one.id for one in list_keys.sync(client=client).keys if one.revoked_at is not None}
refused = get_credits.sync(client=weak)
assert isinstance(refused, Problem) and refused.status == 401, refused
