"""The list of all parts, licences and known vulnerabilities of what is installed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from embedded import temporal_binary
from embedded.cluster import MAJOR
from supply import __main__, vulnerabilities
from supply.licences import find_licence, find_refused
from supply.locks import (
    ANALYSIS,
    DEVELOPMENT,
    DOCUMENTATION,
    EXPORT,
    GENERATOR,
    ROOT,
    RUNTIME,
    Pin,
    read_pins,
)
from supply.parts import list_parts
from supply.vulnerabilities import ServiceSilent, read_answer


@pytest.fixture(scope="module")
def listed() -> str:
    return list_parts()


@pytest.fixture(scope="module")
def parts(listed: str) -> dict[str, dict[str, Any]]:
    return {part["name"]: part for part in json.loads(listed)["components"]}


def test_the_list_names_each_locked_package_with_its_version_hashes_and_licence(
    parts: dict[str, dict[str, Any]],
) -> None:
    pins = [*read_pins(RUNTIME), *read_pins(EXPORT)]
    assert len(pins) > 50
    for pin in pins:
        part = parts[pin.name]
        [files] = part["externalReferences"]
        assert part["version"] == pin.version and part["purl"] == f"pkg:pypi/{pin.name}@{pin.version}"
        assert sorted(one["content"] for one in files["hashes"]) == sorted(pin.hashes)
        assert part["licenses"] == [{"expression": find_licence(pin.name)}]
    assert set(parts) == {pin.name for pin in pins} | {"postgresql", "temporal"}


def test_the_list_names_the_programs_that_are_started_beside(parts: dict[str, dict[str, Any]]) -> None:
    assert parts["postgresql"]["version"].split(".")[0] == MAJOR
    temporal = parts["temporal"]
    modules = {part["name"]: part["version"] for part in temporal["components"]}
    assert temporal["version"] == temporal_binary.VERSION
    assert modules["github.com/temporalio/cli"] == f"v{temporal_binary.VERSION}"
    assert modules["github.com/temporalio/cli/cliext"] != "v0.0.0"  # the version that replaces it
    assert all(part["properties"][0]["value"].startswith("h1:") for part in temporal["components"])


def test_the_list_is_of_the_form_that_it_names(listed: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(listed) is None


def test_each_licence_is_allowed() -> None:
    assert find_refused(read_pins(DEVELOPMENT)) == []


@pytest.mark.parametrize("lock", [RUNTIME, EXPORT], ids=lambda path: path.name)
def test_the_lock_for_development_has_all_that_is_locked_for_the_service(lock: Path) -> None:
    assert set(read_pins(lock)) <= set(read_pins(DEVELOPMENT))


def test_the_list_has_each_lock_that_the_image_installs() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    installed = set(re.findall(r"-r (\S+\.lock)", dockerfile))
    assert installed == {RUNTIME.name, EXPORT.name, DOCUMENTATION.name}
    # What builds the site stays behind: the image has the site's files alone.
    assert re.findall(r"^COPY --from=docs (.+)$", dockerfile, re.MULTILINE) == [
        "/app/dist/docs /app/dist/docs"
    ]


@pytest.mark.parametrize(
    "lock", [DEVELOPMENT, DOCUMENTATION, GENERATOR, ANALYSIS], ids=lambda path: path.name
)
def test_the_tool_that_knows_vulnerabilities_reads_each_lock(lock: Path) -> None:
    command = [*vulnerabilities.COMMAND, f"--requirement={lock}", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Dry run: would have audited" in done.stderr, done.stderr


def test_a_package_of_unknown_or_refused_licence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    licences = {"free": "MIT OR Apache-2.0", "bound": "MIT AND AGPL-3.0-only", "driver": "LGPL-3.0-only"}
    monkeypatch.setattr("supply.licences.find_licence", licences.get)
    pins = [Pin(name, "1.0", "", ()) for name in (*licences, "silent")]
    assert find_refused(pins) == [
        "bound 1.0: MIT AND AGPL-3.0-only",
        "driver 1.0: LGPL-3.0-only",
        "silent 1.0: says no licence that is known here",
    ]


def test_a_line_of_a_lock_that_is_no_pin_with_hashes_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"one==1.0 \\\n    --hash=sha256:{'0' * 64}\ntwo==2.0\n")
    with pytest.raises(ValueError, match=r"some\.lock"):
        read_pins(lock)


def test_each_vulnerability_is_a_line() -> None:
    known = {"id": "PYSEC-1", "fix_versions": ["1.1", "1.2"], "aliases": [], "description": ""}
    answer = {"dependencies": [{"name": "one", "version": "1.0", "vulns": [known]}], "fixes": []}
    assert read_answer(answer) == ["one 1.0: PYSEC-1, fixed in 1.1 or 1.2"]


def test_packages_that_were_left_out_are_no_success() -> None:
    answer = {"dependencies": [{"name": "one", "skip_reason": "not found"}], "fixes": []}
    with pytest.raises(ServiceSilent, match="1 packages were not checked: not found"):
        read_answer(answer)


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_a_silent_service_is_said_and_fails_only_where_ci_is_set(
    ci: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stay_silent(_file: Path) -> list[str]:
        raise ServiceSilent("no answer")

    monkeypatch.setattr(vulnerabilities, "_ask", stay_silent)
    monkeypatch.setattr("supply.parts.FILE", tmp_path / "dist" / "sbom.json")
    monkeypatch.setenv("CI", ci)
    assert __main__.main() == code
    assert "NOT CHECKED" in capsys.readouterr().out
    assert (tmp_path / "dist" / "sbom.json").exists()
