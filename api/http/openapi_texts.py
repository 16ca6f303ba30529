"""The texts of OpenAPI beside the operations: the service, its tags in order, short summaries."""

from __future__ import annotations

from typing import Any

DESCRIPTION = """Look up what is known about an IP address, an e-mail address, a phone number, a domain,
a company, a user name or a mention on the dark web; watch such targets and hear of what changes; and run
workflows on all of it.

- **Credentials**: `Authorization: Bearer <API key or session token>`, or the key as `X-API-Key`.
  Paths under `/api/agent/` take API keys alone.
- **Errors** are problem documents (RFC 9457, `application/problem+json`). Programs read `code`; its page is
  at `/errors/<code>`. The schemas `AnswerCode`, `FieldCode`, `WarningCode` and `RunCode` list them all.
- **Credits**: a request that costs some says so in its description. 402 means that there are not enough.
- **Rate limits**: `RateLimit-Policy` and `RateLimit` headers; 429 comes with `Retry-After`.
- **Repeats**: an operation with the parameter `Idempotency-Key` is done once for a key, and gives its first
  answer again for 24 hours. Ingest URLs have a rule of their own. Other operations ignore the header; a
  stream of lookups refuses it.
- **Pages**: `limit` and `cursor`; `next_cursor` of an answer is the `cursor` of the next page, null on the
  last. Workflows and their runs have `page` instead, runs and results of monitors `offset`.
- **Times** are ISO 8601 in UTC, ids are UUIDs. Unknown fields of a body and unknown query
  parameters are refused.
"""

TAGS = {
    "lookups": "What all sources together know about a target, and which source each value is from.",
    "bulk": "Many lookups in one request: answered as one JSON, or as a stream.",
    "jobs": "Many lookups that need not be waited for: a CSV file or a list of targets, up to 10,000 rows.",
    "lists": "Targets of a type, kept under a name, for monitors.",
    "monitors": "Targets that are looked up again and again: their runs, results, and what has changed.",
    "workflows": "A trigger and the steps that follow. Every change makes a version.",
    "runs": "What became of a workflow's runs: follow them, cancel them, try again.",
    "triggers": "What starts runs from outside, or lets one that waits go on: events, files, answers.",
    "secrets": "Values for requests of workflows. They can be stored and replaced, never read.",
    "templates": "Workflows to begin with.",
    "webhooks": "Where events of the account are sent to, signed.",
    "events": "What is sent to webhooks: the types of events, and the log of deliveries.",
    "activity": "What happened in the account, and what happens there now.",
    "credits": "The balance, and every change of it.",
    "keys": "API keys and what each may do.",
    "auth": "Accounts, sessions and passwords.",
    "chat": "The assistant: ask in words, and approve what it changes.",
    "mcp": "The same for agents, by the Model Context Protocol.",
    "discovery": "What newcomers, agents and their clients look for first.",
    "service": "Whether the service works, its counters, and what its error codes mean.",
}

TAG_GROUPS = {
    "Look up": ["lookups", "bulk", "jobs"],
    "Watch": ["lists", "monitors"],
    "Automate": ["workflows", "runs", "triggers", "secrets", "templates"],
    "Be told": ["webhooks", "events"],
    "Account": ["activity", "credits", "keys", "auth"],
    "Agents": ["chat", "mcp", "discovery"],
    "Service": ["service"],
}

# For functions whose name does not make a good summary.
_SUMMARIES = {
    "look_up_ip": "Look up an IP address",
    "check_breaches": "Check an e-mail address for breaches",
    "look_up_email": "Look up a person by e-mail address",
    "validate_email": "Check whether an e-mail address can receive mail",
    "look_up_phone": "Look up a phone number",
    "look_up_domain": "Look up a domain",
    "look_up_username": "Look up a user name",
    "search_web": "Search the web",
    "search_company": "Search a company and its people",
    "search_darkweb": "Search the dark web",
    "list_providers": "List the sources of lookups",
    "search_companies": "Search up to 100 companies",
    "search_web_in_bulk": "Search the web up to 100 times",
    "search_domains": "Look up to 100 domains up",
    "search_ips": "Look up to 100 IP addresses up",
    "look_up_emails": "Look up to 1,000 people up, as a stream",
    "get_job_events": "Follow a job live",
    "download_job_results": "Download the results of a job",
    "list_targets": "List the targets of a list",
    "add_targets": "Add targets to a list",
    "remove_targets": "Remove targets from a list",
    "validate_monitor": "Check a monitor without storing it",
    "list_monitor_targets": "List the targets of a monitor",
    "add_monitor_targets": "Add targets to a monitor",
    "remove_monitor_targets": "Remove targets from a monitor",
    "run_monitor": "Run a monitor now",
    "list_monitor_runs": "List the runs of a monitor",
    "get_monitor_run": "Get a run of a monitor",
    "cancel_monitor_run": "Cancel a run of a monitor",
    "mark_monitor_run_seen": "Mark the changes of a monitor's runs as seen",
    "list_run_results": "List the results of a monitor's run",
    "download_run_results": "Download the results of a monitor's run",
    "list_target_history": "List what was found of a target before",
    "list_monitoring_runs": "List the runs of all monitors",
    "list_monitoring_results": "List the results of all monitors",
    "list_monitoring_targets": "List the targets of all monitors",
    "validate_workflow": "Check a workflow without storing it",
    "get_workflow_schema": "Get the JSON Schema of workflows",
    "list_workflow_versions": "List the versions of a workflow",
    "get_workflow_version": "Get a version of a workflow",
    "restore_workflow_version": "Restore a version of a workflow",
    "run_workflow": "Run a workflow by hand",
    "get_chat": "Get whether the assistant can be used",
    "agree_to_chat": "Agree to the model's host",
    "withdraw_from_chat": "Withdraw the consent to the model's host",
    "create_conversation": "Begin a conversation",
    "send_message": "Send a message to the assistant",
    "get_message_events": "Follow an answer live",
    "cancel_message": "End an answer",
    "decide_on_approval": "Approve or deny a call",
    "change_runs": "Retry or cancel many runs",
    "cancel_bulk_action": "End a bulk action",
    "test_workflow": "Try a workflow without effect",
    "list_audit": "List what was done to workflows",
    "list_workflow_audit": "List what was done to a workflow",
    "get_run_events": "Follow a run live",
    "ingest": "Send an event to a workflow",
    "resume": "Answer a step that waits",
    "get_resume_page": "See what a step asks",
    "resume_by_form": "Answer a step that waits by its form",
    "rotate_workflow_token": "Change the ingest URL of a workflow",
    "upload_file": "Run a workflow for the rows of a file",
    "get_batch": "Get the batch of a file",
    "cancel_batch": "Cancel the batch of a file",
    "delete_secret_by_body": "Delete a secret named in the body",
    "replace_webhook": "Change a webhook named in the body",
    "delete_webhook_by_body": "Delete a webhook named in the body",
    "test_webhook": "Send a test to a webhook",
    "rotate_webhook_secret": "Change the secret of a webhook",
    "list_event_types": "List the types of events",
    "resend_delivery": "Send a delivery again",
    "recover_deliveries": "Send again all that has failed since a time",
    "get_credits": "Get the balance",
    "set_credit_settings": "Set when the balance counts as low",
    "get_ledger": "List the changes of the balance",
    "set_auto_topup": "Set when credits are added by themselves",
    "delete_key": "Revoke a key",
    "delete_key_by_query": "Revoke a key named in the query",
    "register": "Create an account",
    "login": "Log in",
    "logout": "Log out",
    "me": "Show who makes the request",
    "change_password": "Change the password",
    "call_mcp": "Call the MCP server",
    "get_index": "Get what answers here",
    "get_auth_md": "Read how to get in",
    "get_llms_txt": "Read what there is, as a language model",
    "get_documentation_page": "Read a page of the documentation",
    "get_schema_for_editors": "Get the JSON Schema of workflows without a key",
    "get_protected_resource": "Get how the API is protected",
    "get_protected_mcp_server": "Get how the MCP server is protected",
    "get_stats": "Get figures over time",
    "list_activity": "List what happened lately",
    "get_stream": "Follow the account live",
    "get_limits": "Get the bounds of the account",
    "get_version": "Get the version of the service",
    "healthz": "Check that this process answers",
    "readyz": "Check that the service can work",
    "get_metrics": "Get counters for Prometheus",
    "get_error_page": "Explain an error code",
}


def summary_of(name: str) -> str:
    """Return the short summary of the operation of the function `name`."""
    return _SUMMARIES.get(name) or name.replace("_", " ").capitalize()


def introduce(document: dict[str, Any]) -> None:
    """Describe the service and its tags, and order the operations by tags."""
    address = document["servers"][0]["url"]
    document["info"] |= {
        "description": DESCRIPTION,
        "contact": {"name": "vedette", "url": f"{address}/docs/"},
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }
    document["externalDocs"] = {
        "description": "Each field of each answer, to be read",
        "url": f"{address}/docs/reference",
    }
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    document["x-tagGroups"] = [{"name": name, "tags": tags} for name, tags in TAG_GROUPS.items()]
    order = list(TAGS)

    def place(item: tuple[str, dict[str, Any]]) -> int:
        tags = next(iter(item[1].values())).get("tags", [])
        return min((order.index(tag) for tag in tags if tag in order), default=len(order))

    document["paths"] = dict(sorted(document["paths"].items(), key=place))
