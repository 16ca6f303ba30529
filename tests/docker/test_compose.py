"""The compose file is valid, and every setting, command, path and image that it names is there."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

import worker
from embedded import temporal
from providers.registry import names_in_settings
from settings import load, names, unknown_names
from tests.docker.files import COMPOSE, is_ours, services, substituted, words
from tests.stacks import ROOT, vedette

_SERVICES = services()
_OURS = {name: service for name, service in _SERVICES.items() if is_ours(service)}
_LASTING = {name: service for name, service in _SERVICES.items() if "restart" in service}
_OF_MANY = ("DATABASE_URL", "TEMPORAL_API_KEY", "VEDETTE_SECRET_KEY", "VEDETTE_METRICS_TOKEN")
_KNOWN = {*names(), *(f"{name}_FILE" for name in _OF_MANY)}
# No setting: what the compose file alone reads.
_OF_COMPOSE = {"PUBLISH", "SUBNET_INSIDE", "SUBNET_OUTSIDE"}
_FULL_VERSION = re.compile(r"[\w./-]+:\d+(\.\d+)+(-[a-z]+)?")


def _example() -> dict[str, str]:
    """The variables in the example, all of which are commented out."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line[1:].split("=", 1) for line in lines if re.match(r"#[A-Z_]+=", line))


def test_it_is_a_compose_file_as_the_specification_has_it() -> None:
    schema = json.loads((ROOT / "tests" / "docker" / "compose-spec.json").read_text())
    jsonschema.validate(yaml.safe_load(COMPOSE.read_text()), schema)


@pytest.mark.parametrize("name", _SERVICES)
def test_each_image_is_named_by_a_full_version(name: str) -> None:
    assert _FULL_VERSION.fullmatch(_SERVICES[name]["image"])


@pytest.mark.parametrize("name", _SERVICES)
def test_no_container_can_change_its_system_or_gain_a_right(name: str) -> None:
    service = _SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "cap_add", "devices", "pid", "ipc"}


@pytest.mark.parametrize("name", _SERVICES)
def test_no_container_can_fill_the_disk_with_its_log_or_the_machine_with_processes(name: str) -> None:
    logging = _SERVICES[name]["logging"]
    assert logging == {"driver": "local", "options": {"max-size": "10m", "max-file": "3"}}
    assert _SERVICES[name]["pids_limit"] > 0


@pytest.mark.parametrize("name", sorted(_LASTING.keys() - {"data"}))
def test_each_lasting_service_has_a_bound_on_its_memory(name: str) -> None:
    assert re.fullmatch(r"[12]g", _SERVICES[name]["mem_limit"])


def test_temporal_finds_itself_after_its_container_was_made_anew() -> None:
    # Beside addresses of former containers in its database it would wait for these.
    assert _SERVICES["temporal"]["environment"]["TEMPORAL_BROADCAST_ADDRESS"] == "127.0.0.1"


def test_the_trusted_proxies_of_the_example_are_the_network_that_a_proxy_comes_from() -> None:
    networks = yaml.safe_load(COMPOSE.read_text())["networks"]
    example = _example()
    for name in ("outside", "inside"):
        (configured,) = networks[name]["ipam"]["config"]
        assert example[f"SUBNET_{name.upper()}"] in configured["subnet"]
    assert example["VEDETTE_TRUSTED_PROXIES"] == example["SUBNET_OUTSIDE"]


def test_all_of_our_services_are_one_image_which_one_builds_and_nobody_pulls() -> None:
    # Services that build the same tag side by side fail each other: `image … already exists`.
    assert {(one["image"], one["pull_policy"]) for one in _OURS.values()} == {("vedette:0.1.0", "never")}
    assert [name for name, service in _SERVICES.items() if "build" in service] == ["credentials"]


@pytest.mark.parametrize("name", sorted(_LASTING.keys() - {"data"}))
def test_each_lasting_service_has_a_healthcheck(name: str) -> None:
    check = _LASTING[name]["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries", "start_period"} <= check.keys()


def test_whoever_waits_for_all_services_is_not_told_that_one_has_ended() -> None:
    # `up --wait` takes the end of a service for a failure, unless another one waits for just that.
    awaited = {
        name
        for service in _SERVICES.values()
        for name, how in service.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }
    assert awaited == _SERVICES.keys() - _LASTING.keys()


def test_only_this_machine_reaches_the_api_and_nobody_the_others() -> None:
    published = {name: service["ports"] for name, service in _SERVICES.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8000:8000"]}


@pytest.mark.parametrize("name", ["postgres", "temporal", "temporal-schema", "temporal-namespace"])
def test_what_needs_no_internet_has_none(name: str) -> None:
    inside = yaml.safe_load(COMPOSE.read_text())["networks"]["inside"]
    assert (_SERVICES[name]["networks"], inside["internal"]) == (["inside"], True)


def test_there_can_be_several_workers() -> None:
    assert not _SERVICES["worker"].keys() & {"container_name", "ports", "hostname"}


@pytest.mark.parametrize("name", sorted(_OURS.keys() - {"credentials"}))
def test_each_setting_is_one_that_is_read(name: str) -> None:
    given: dict[str, str] = _OURS[name]["environment"]
    assert [one for one in given if one not in _KNOWN] == []
    load({one: value for one, value in given.items() if not one.endswith("_FILE")})


def test_the_example_names_what_can_be_set_and_nothing_that_is_not_read() -> None:
    example = _example()
    assert substituted() <= example.keys()
    assert [one for one in example if one not in _KNOWN | _OF_COMPOSE] == []
    assert not unknown_names(dict.fromkeys(example, "x"), names_in_settings())


def test_the_example_shows_the_defaults_of_the_compose_file() -> None:
    shown = {name: value for name, value in _example().items() if name in substituted()}
    off = {"DATABASE_URL_FILE": "", "VEDETTE_SECRET_KEY_FILE": ""}
    assert services(**shown | off) == services(**off)


def test_nothing_is_set_in_the_example() -> None:
    assert [
        line for line in (ROOT / ".env.example").read_text().splitlines() if line and line[0] != "#"
    ] == []


def test_secrets_are_in_files_alone() -> None:
    def given(service: dict[str, Any]) -> dict[str, str]:
        return service.get("environment", {})

    secret = re.compile(r"(PASSWORD|PWD|KEY|TOKEN|DATABASE_URL)$")
    assert [one for service in _SERVICES.values() for one in given(service) if secret.search(one)] == []
    files = {
        value
        for service in _SERVICES.values()
        for one, value in given(service).items()
        if one.endswith("_FILE")
    }
    assert all(file.startswith("/run/credentials/") for file in files)


@pytest.mark.parametrize("name", sorted(_LASTING.keys() & _OURS.keys() | {"migrate"}))
def test_each_command_of_vedette_is_there(name: str, tmp_path: Any) -> None:
    if "entrypoint" in _OURS[name]:
        script = words(_OURS[name]["entrypoint"])[-1]
        command = re.findall(r"vedette ([^;&|]+)", script)[0].split()
    else:
        command = words(_OURS[name]["command"])
    arguments = [word for word in command if not word.startswith("-")]
    done = vedette(tmp_path, *arguments[:2], "--help", COLUMNS="200")
    assert done.returncode == 0
    assert [word for word in command if word.startswith("-") and word not in done.stdout] == []


def test_each_file_of_the_checkout_that_a_container_sees_is_there() -> None:
    mounted = [one for service in _SERVICES.values() for one in service.get("volumes", []) if one[0] == "."]
    assert mounted
    assert [one for one in mounted if not (ROOT / one.partition(":")[0]).is_file()] == []
    assert all(one.endswith(":ro,z") for one in mounted)


def test_each_file_of_the_image_that_a_service_names_is_there() -> None:
    named = re.findall(r"/app/([\w./-]+)", COMPOSE.read_text())
    assert named
    assert [one for one in named if not (ROOT / one).is_file()] == []


def test_temporal_is_tuned_as_the_built_in_one_is() -> None:
    given = yaml.safe_load((ROOT / "docker" / "temporal.yaml").read_text())
    found = {name: json.dumps(values[0]["value"]) for name, values in given.items()}
    port = {"frontend.httpAllowedHosts": '["127.0.0.1:7243"]'}  # of the healthcheck
    protected = {"worker.protectedNamespaces": '["default"]'}
    assert found == temporal._DYNAMIC_CONFIG | port | protected
    assert "127.0.0.1:7243" in str(_SERVICES["temporal"]["healthcheck"]["test"])


def test_a_worker_has_the_time_that_it_needs_to_finish() -> None:
    # First its calls are finished, then its activities.
    assert _SERVICES["worker"]["stop_grace_period"] == "1m"
    assert 2 * worker._GRACE.total_seconds() < 60
