"""The `vedette` command beside a running stack."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from cli.client import connect_service
from cli.runs import follow
from embedded import doctor
from settings import ExitCode, Settings, StartError
from tests.datasets import write_small_datasets
from tests.stacks import CLI, ROOT, StackProcess, environment, vedette


def test_help_is_quick_because_it_imports_nothing_heavy() -> None:
    heavy = ("temporalio", "fastapi", "psycopg", "pydantic", "httpx", "yaml", "rich.table")
    program = f"import sys, cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    said = vedette(tmp_path, "--version").stdout
    assert said == f"vedette {tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("vedette work", {"workflows", "worker"}),
        ("vedette runs re", {"retry", "retry-all"}),
        ("vedette jobs run --ty", {"--type"}),
    ],
)
def test_a_shell_completes_nouns_verbs_and_options(tmp_path: Path, words: str, completed: set[str]) -> None:
    names = {"_VEDETTE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert set(vedette(tmp_path, **names).stdout.split()) == completed


@pytest.mark.parametrize("arguments", [["--help"], ["workflows", "schema"]])
def test_an_output_that_cannot_be_written_is_one_line_and_1(tmp_path: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, CLI, *arguments],
            env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    said = "The output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_watch_that_never_reached_the_service_says_that_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cli.client._RECONNECT_SECONDS", 0)
    monkeypatch.setenv("VEDETTE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("VEDETTE_API_KEY", "vd_x")
    with connect_service({}) as service, pytest.raises(StartError, match="cannot be reached"):
        follow(service, "x", aloud=True)
    assert capsys.readouterr().err == ""


def test_a_wrong_command_line_ends_with_2(tmp_path: Path) -> None:
    assert vedette(tmp_path, "fly").returncode == ExitCode.USAGE


class TestConfig:
    def test_it_says_where_each_value_comes_from(self, tmp_path: Path) -> None:
        rows = json.loads(vedette(tmp_path, "config", "--json").stdout)
        assert rows["VEDETTE_PORT"] == {"value": "0", "source": "VEDETTE_PORT"}
        assert rows["VEDETTE_HOST"] == {"value": "127.0.0.1", "source": "default"}
        assert rows["VEDETTE_LIMIT_IP"] == {"value": "60/60", "source": "default"}

    @pytest.mark.parametrize(
        ("database", "shown"),
        [
            ("postgresql://me:hush@db/x", "postgresql://me:***@db/x"),
            ("host=db password=hush", "***"),
        ],
    )
    def test_it_masks_secrets(self, tmp_path: Path, database: str, shown: str) -> None:
        secrets = ("VEDETTE_SECRET_KEY", "VEDETTE_METRICS_TOKEN", "VEDETTE_PROVIDER_HIBP_KEY")
        names = {**dict.fromkeys(secrets, "hush"), "DATABASE_URL": database}
        rows = json.loads(vedette(tmp_path, "config", "--json", **names).stdout)
        assert {name: rows[name] for name in names} == {
            "DATABASE_URL": {"value": shown, "source": "DATABASE_URL"},
            **{name: {"value": "***", "source": name} for name in secrets},
        }
        assert "hush" not in vedette(tmp_path, "config", **names).stdout

    def test_a_value_from_a_file_names_the_file_setting(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_text("hush" * 10)
        done = vedette(tmp_path, "config", "--json", VEDETTE_SECRET_KEY_FILE=str(tmp_path / "key"))
        assert json.loads(done.stdout)["VEDETTE_SECRET_KEY"]["source"] == "VEDETTE_SECRET_KEY_FILE"


class TestDoctor:
    def test_beside_a_running_stack_all_is_well(self, stack: StackProcess) -> None:
        done = vedette(stack.data, "doctor", "--json")
        findings = {finding["part"]: finding for finding in json.loads(done.stdout)}
        assert {part: finding["state"] for part, finding in findings.items()} == {
            "python": "ok",
            "data folder": "ok",
            "stack": "ok",
            "database": "ok",
            "schema": "ok",
            "history": "ok",
            "connections": "ok",
            "clock": "ok",
            "workers": "ok",
            "secret key": "ok",
            "temporal": "ok",
            "lookup data": "ok",
        }
        assert done.returncode == 0

    def test_partitions_that_are_missing_are_told_of_and_migrate_makes_them(
        self, stack: StackProcess
    ) -> None:
        with psycopg.connect(stack.record.database_url) as connection:
            newest = connection.execute(
                "select name from history_partitions where upper_id > first_id(now() + interval '8 days')"
            ).fetchall()
            for (name,) in newest:
                connection.execute(SQL("drop table {}").format(Identifier(name)))
        done = vedette(stack.data, "doctor")
        assert done.returncode == 1
        assert "broken   history" in done.stdout and "vedette migrate" in done.stdout
        assert vedette(stack.data, "migrate").returncode == 0
        assert vedette(stack.data, "doctor").returncode == 0

    async def test_a_clock_that_is_not_the_databases_is_told_of(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(doctor, "_CLOCK_SECONDS", -1)
        found = {finding.part: finding for finding in await doctor.examine(settings)}
        assert found["clock"].state == "broken" and "clocks" in found["clock"].remedy

    def test_a_broken_part_comes_with_what_to_do_and_1(self, tmp_path: Path) -> None:
        (tmp_path / "secret.key").write_text("k" * 40)
        (tmp_path / "secret.key").chmod(0o644)
        done = vedette(tmp_path, "doctor", DATABASE_URL="postgresql://me:hush@127.0.0.1:9/x")
        assert done.returncode == 1
        assert "broken   database" in done.stdout and "Connection refused" in done.stdout
        assert "chmod 600" in done.stdout
        assert "hush" not in done.stdout

    def test_before_the_first_start_nothing_is_broken(self, tmp_path: Path) -> None:
        assert vedette(tmp_path / "new", "doctor").returncode == 0
        assert not (tmp_path / "new").exists()


class TestAccountsAndKeys:
    def test_a_new_account_and_its_key_work_at_once(self, stack: StackProcess) -> None:
        email = "cli@example.com"
        account = json.loads(
            vedette(stack.data, "accounts", "create", email, "--credits", "7", "--json").stdout
        )
        assert account["email"] == email and account["credits"] == 7
        key = json.loads(vedette(stack.data, "keys", "create", "--account", email, "--json").stdout)
        with httpx.Client(base_url=stack.url, trust_env=False) as client:
            login = {"email": email, "password": account["password"]}
            assert client.post("/api/auth/login", json=login).status_code == 200
            me = client.get("/api/auth/me", headers={"X-API-Key": key["key"]}).json()
        assert me["user"]["email"] == email

    def test_they_are_listed_without_secrets(self, stack: StackProcess) -> None:
        email = "listed@example.com"
        vedette(stack.data, "accounts", "create", email, "--credits", "7")
        made = json.loads(vedette(stack.data, "keys", "create", "--account", email, "--json").stdout)
        accounts = json.loads(vedette(stack.data, "accounts", "list", "--json").stdout)["accounts"]
        [account] = [one for one in accounts if one["email"] == email]
        assert (account["credits"], account["keys"]) == (7, 1)
        listed = vedette(stack.data, "keys", "list", "--account", email, "--json").stdout
        [key] = json.loads(listed)["keys"]
        assert (key["id"], key["account"], key["revoked_at"]) == (made["id"], email, None)
        assert made["key"] not in listed
        vedette(stack.data, "keys", "revoke", key["id"])
        assert (
            vedette(stack.data, "keys", "list", "--account", email).stdout.splitlines()[1].endswith("revoked")
        )

    def test_a_password_of_ones_own_comes_from_a_file(self, stack: StackProcess, tmp_path: Path) -> None:
        (tmp_path / "password").write_text("correct horse battery\n")
        arguments = ("accounts", "create", "own@example.com", "--password-file", str(tmp_path / "password"))
        assert "password" not in vedette(stack.data, *arguments).stdout
        with httpx.Client(base_url=stack.url, trust_env=False) as client:
            login = {"email": "own@example.com", "password": "correct horse battery"}
            assert client.post("/api/auth/login", json=login).status_code == 200


def test_a_monitor_is_created_run_and_read_with_the_key_of_the_stack(stack: StackProcess) -> None:
    targets = ("--type", "ip", "--targets", "8.8.8.8,1.1.1.1", "--daily")
    created = vedette(stack.data, "monitors", "create", *targets, "--json")
    monitor_id = json.loads(created.stdout)["id"]
    done = vedette(stack.data, "monitors", "run", monitor_id, "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 targets, 0 changed, 0 failed, 2 credits." in done.stdout
    found = json.loads(vedette(stack.data, "monitors", "results", monitor_id, "--json").stdout)
    assert [one["data"]["ip_address"] for one in found] == ["8.8.8.8", "1.1.1.1"]


ADMIN, NOBODY = "admin@vedette.internal", "nobody@example.com"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("accounts create here", "EMAIL: This is not an e-mail address."),
        (f"accounts create {ADMIN}", "EMAIL: There is an account with this e-mail already."),
        ("accounts create new@example.com --name=", "--name: A name has 1 to 200 characters."),
        ("accounts create new@example.com --password-file short", "--password-file: A password has 12 to"),
        ("accounts create new@example.com --password-file bytes", "--password-file: This is not UTF-8 text."),
        (f"accounts reset-password {NOBODY}", "EMAIL: There is no such account."),
        ("keys create --account here", "--account: This is not an e-mail address."),
        (f"keys list --account {NOBODY}", "--account: There is no such account."),
        (f"keys create --account {NOBODY}", "--account: There is no such account."),
        (f"keys create --account {ADMIN} --scope all", "--scope: There is no scope all"),
        (f"keys create --account {ADMIN} --name=", "--name: A name has 1 to 200 characters."),
        ("keys revoke 17", "ID: There is no such key."),
        (f"credits grant {NOBODY} 5", "EMAIL: There is no such account."),
        ("persons suppress here", "PERSON: "),
        ("persons suppress here@", "PERSON: "),
        ("persons erase here", "PERSON: "),
        ("accounts create \udcff@example.com", "The command line is not UTF-8 text."),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line_that_names_the_option_and_2(
    stack: StackProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    (tmp_path / "short").write_text("short")
    (tmp_path / "bytes").write_bytes(b"\xff" * 20)
    monkeypatch.chdir(tmp_path)
    done = vedette(stack.data, *arguments.split(" "))
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert done.stderr.startswith(said)
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("accounts create a@example.com --credits 99999999999999999999", "--credits"),
        ("accounts create a@example.com --password-file .", "--password-file"),
        ("accounts create a@example.com --password-file nowhere", "--password-file"),
        ("keys create --account a@example.com --days 99999999999", "--days"),
        ("credits grant a@example.com 99999999999999999999", "AMOUNT"),
        ("credits grant a@example.com many", "AMOUNT"),
        ("keys create", "--account"),
        ("doctor --jsn", "--jsn"),
    ],
)
def test_what_the_command_line_cannot_be_names_the_option_and_2(
    tmp_path: Path, arguments: str, option: str
) -> None:
    done = vedette(tmp_path, *arguments.split())
    assert done.returncode == ExitCode.USAGE
    assert option in done.stderr and "Traceback" not in done.stderr


def test_migrating_a_database_that_is_at_the_head_changes_nothing(stack: StackProcess) -> None:
    first = vedette(stack.data, "migrate", "--json")
    assert json.loads(first.stdout) == json.loads(vedette(stack.data, "migrate", "--json").stdout)


def test_data_that_is_there_is_not_fetched(stack: StackProcess) -> None:
    done = vedette(stack.data, "data", "fetch", "--if-missing", "--json")
    results = {result["name"]: result["status"] for result in json.loads(done.stdout)}
    assert results["dbip-city"] == results["asn"] == "present"
    assert done.returncode == 0


def test_data_that_cannot_be_fetched_is_told_with_the_reason_and_9(tmp_path: Path) -> None:
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    done = vedette(tmp_path, "data", "fetch", "--json", **nowhere)
    results = {result["name"]: result for result in json.loads(done.stdout)}
    assert results["dbip-city"]["status"] == "failed" and results["dbip-city"]["detail"]
    assert results["tor"]["fields"] == ["security.is_tor", "threat.is_tor"]
    assert done.returncode == 9


def test_data_that_is_missing_is_named_with_the_fields_that_it_costs(tmp_path: Path) -> None:
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    done = vedette(tmp_path, "data", "fetch", **nowhere)
    assert "  tor: security.is_tor, threat.is_tor" in done.stdout.splitlines()


def test_a_version_that_could_not_be_renewed_is_said_to_stay(tmp_path: Path) -> None:
    write_small_datasets(tmp_path)
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    done = vedette(tmp_path, "data", "fetch", **nowhere)
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("tor ")]
    assert told.startswith("tor 2026-11-21: unavailable, ") and "this version stays in use" in told
    assert done.returncode == 9


def test_data_without_a_version_is_named_alone(tmp_path: Path) -> None:
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    assert "\ndbip-city: failed, " in vedette(tmp_path, "data", "fetch", **nowhere).stdout


class TestWorkflows:
    GOOD = '{"name": "x", "steps": [{"id": "a", "type": "ip_lookup", "config": {"field": "trigger.ip"}}]}'
    BAD = GOOD.replace("field", "filed").replace('"name": "x"', '"name": ""')

    def validate(self, tmp_path: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "workflow.json").write_text(text)
        return vedette(tmp_path, "workflows", "validate", str(tmp_path / "workflow.json"), *arguments)

    def test_a_valid_file_ends_with_0(self, tmp_path: Path) -> None:
        done = self.validate(tmp_path, self.GOOD)
        assert (done.returncode, done.stdout) == (0, "The workflow is valid.\n")

    def test_names_stand_for_what_only_a_service_knows(self, tmp_path: Path) -> None:
        step = '{"id": "a", "type": "workflow", "config": {"workflow_id": "another"}}'
        done = self.validate(tmp_path, f'{{"name": "x", "steps": [{step}]}}')
        assert (done.returncode, done.stdout) == (0, "The workflow is valid.\n")

    def test_a_bad_file_is_told_line_by_line_with_1(self, tmp_path: Path) -> None:
        done = self.validate(tmp_path, self.BAD)
        assert done.returncode == 1
        file = tmp_path / "workflow.json"
        assert sorted(line.split(": ")[0] for line in done.stdout.splitlines()) == [
            f"{file}:1 name",
            f"{file}:1 steps[0].config.filed",
        ]
        assert "Did you mean field?" in done.stdout

    def test_programs_get_what_the_api_answers(self, tmp_path: Path) -> None:
        found = json.loads(self.validate(tmp_path, self.BAD, "--json").stdout)
        assert found["valid"] is False and found["warnings"] == []
        assert {(error["pointer"], error["code"]) for error in found["errors"]} == {
            ("/name", "too_short"),
            ("/steps/0/config/filed", "unknown_field"),
        }

    def test_secrets_are_only_warned_of(self, tmp_path: Path) -> None:
        step = {"id": "a", "type": "webhook", "config": {"url": "https://x.example/{{ secrets.KEY }}"}}
        done = self.validate(tmp_path, json.dumps({"name": "x", "steps": [step]}))
        valid, warning = done.stdout.splitlines()
        assert (done.returncode, valid) == (0, "The workflow is valid.")
        assert "workflow.json:1 steps[0].config.url: warning: " in warning and "KEY" in warning

    def test_the_fields_of_lookups_are_known_without_a_server(self, tmp_path: Path) -> None:
        config = {"field": "trigger.ip", "fields": ["locaton.city"]}
        step = {"id": "a", "type": "ip_lookup", "config": config}
        done = self.validate(tmp_path, json.dumps({"name": "x", "steps": [step]}))
        assert done.returncode == 1
        place, _, said = done.stdout.partition(": ")
        assert place.endswith("workflow.json:1 steps[0].config.fields[0]")
        assert said == "The answer has no such field. Did you mean location.city?\n"

    def test_what_is_not_json_is_told_with_the_place_and_1(self, tmp_path: Path) -> None:
        done = self.validate(tmp_path, '{"name":\n}')
        assert done.returncode == 1 and "line 2" in done.stdout

    def test_yaml_is_told_with_its_lines(self, tmp_path: Path) -> None:
        text = "name: x\nsteps:\n- id: a\n  type: ip_lookup\n  config:\n    filed: trigger.ip\n"
        done = self.validate(tmp_path, text)
        [line] = done.stdout.splitlines()
        assert line.partition(".json")[2].startswith(":6 steps[0].config.filed: ")

    def test_a_dash_is_standard_input(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, str(CLI), "workflows", "validate", "-"],
            input=self.GOOD, env=environment(tmp_path), capture_output=True, text=True, check=False,
            timeout=180,
        )  # fmt: skip
        assert done.returncode == 0

    def test_a_file_that_is_not_there_ends_with_2(self, tmp_path: Path) -> None:
        assert vedette(tmp_path, "workflows", "validate", "nothing.json").returncode == ExitCode.USAGE

    def test_the_schema_is_the_published_one(self, tmp_path: Path) -> None:
        printed = vedette(tmp_path, "workflows", "schema").stdout
        assert printed == (ROOT / "docs" / "workflow.schema.json").read_text()
