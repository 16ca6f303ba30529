"""What contributors are told to run is what the project's own checks run."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tests.stacks import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*?## .+\n((?:\t.+\n)+)", MAKEFILE, re.MULTILINE)
    assert found, f"make {target} is not there, or says not what it does"
    return [line.strip().lstrip("@").replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


def test_the_hooks_before_a_commit_run_what_make_lint_runs_and_fetch_nothing() -> None:
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    hooks: list[dict[str, Any]] = repository["hooks"]
    assert repository["repo"] == "local"
    assert [hook["entry"] for hook in hooks] == recipe("lint")
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)


def test_each_target_that_the_page_names_is_one_of_the_makefile() -> None:
    for line in re.findall(r"^make ([a-z -]+)", PAGE, re.MULTILINE):
        for target in line.split():
            assert recipe(target)


def test_each_file_and_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:tests|docs|api|models|migrations|sql|\.ci|\.github)/[\w./-]*)`", PAGE))
    assert named and not [name for name in named if not (ROOT / name).exists()]


def test_the_workflow_of_the_forge_runs_the_script_and_pins_actions_by_their_major_version() -> None:
    [job] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[a-z-]+@v\d+", one) for one in used)


def test_updates_of_dependencies_reach_each_lock_with_hashes() -> None:
    patterns = json.loads((ROOT / "renovate.json").read_text())["pip_requirements"]["managerFilePatterns"]
    locks = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.lock")]
    assert locks and all(any(re.search(one.strip("/"), lock) for one in patterns) for lock in locks)


def test_the_readme_names_both_commands_that_set_everything_up() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in text and "`make test`" in text
