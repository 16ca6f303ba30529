"""The benchmarks, so that one that is broken is found; what they measure is not looked at."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.temporal import Temporal
from tests.programs import find_program
from tests.stacks import ROOT, environment

MODULES = sorted(path.stem for path in (ROOT / "bench").glob("*.py"))
# Each in its smallest form, what its lines of figures look like, and how many it prints.
SMALLEST = [
    (
        "automations --shape pure --clients 2 --offered 20 --seconds 0.3"
        " --workflows 3 --accounts 2 --workers 2",
        r"pure +(2|20/s) (waiting|posting) +\d",
        3,
    ),
    ("claims --stored 10 --queues 1 3 --elsewhere 200 --rounds 8", r" +\d+ +(none|open|\d+) +[\d.]+ ", 8),
    (
        "scale --apis 1 2 --workers 1 --workflows 1 --accounts 1 2 --execution auto --stored 10 500"
        " --clients 2 --seconds 0.3",
        r"(base|base again|apis 2|accounts 2|stored 500) +\d",
        5,
    ),
    ("migrations --rows 2000", r"(runs|audit_log) +[\d.]+ +[\d.]+$", 2),
    ("families --small --seconds 0", r" +(\d+ × \d+|all) +\d", 4),
    ("dashboard --runs 10 --minutes 0.05 --streams 2", r"/app\S* +[\d,]+ +\d", 10),
]


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    importlib.import_module(f"bench.{name}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "line", "count"), SMALLEST, ids=[one[0].split(" --")[0] for one in SMALLEST]
)
def test_a_benchmark_runs_to_its_end(
    command: str, line: str, count: int, tmp_path: Path, temporal_server: Temporal
) -> None:
    if command.startswith("dashboard"):
        find_program("chromium")
    done = subprocess.run(
        [sys.executable, "-m", *f"bench.{command}".split()],
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(f"^{line}", done.stdout, re.MULTILINE)) == count, done.stdout
