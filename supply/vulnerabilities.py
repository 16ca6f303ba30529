"""Known vulnerabilities of the locked packages, by pip-audit."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from supply.locks import ANALYSIS, DEVELOPMENT, DOCUMENTATION, GENERATOR, read_pins

_SECONDS = 600
COMMAND = (
    *(sys.executable, "-m", "pip_audit"),
    *("--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off", "--timeout=15"),
)


class ServiceSilent(Exception):
    """The vulnerability service did not answer, so that nothing is known. The message says what happened."""


def find_vulnerabilities() -> list[str]:
    """Return a line for each known vulnerability of a locked package.

    Raises:
        ServiceSilent: the service has not answered for every package. The first package is asked for alone:
            without an answer the others are not tried.
    """
    first = read_pins(DEVELOPMENT)[0]
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.txt"
        probe.write_text(f"{first.name}=={first.version}\n")
        _ask(probe)
    # One by one: in one question pip-audit refuses a package with two versions.
    return sorted({*_ask(DEVELOPMENT), *_ask(DOCUMENTATION), *_ask(GENERATOR), *_ask(ANALYSIS)})


def _ask(file: Path) -> list[str]:
    command = [*COMMAND, f"--requirement={file}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ServiceSilent(f"pip-audit has not ended within {_SECONDS} seconds.") from error
    try:
        return read_answer(json.loads(done.stdout))
    except ValueError as error:
        raise ServiceSilent((done.stderr.strip().splitlines() or ["pip-audit said nothing."])[-1]) from error


def read_answer(answer: dict[str, Any]) -> list[str]:
    """Return a line for each vulnerability that pip-audit found.

    Raises:
        ServiceSilent: the answer leaves packages out. pip-audit calls that success, even if it left out all.
    """
    skipped = [one for one in answer["dependencies"] if "skip_reason" in one]
    if skipped:
        raise ServiceSilent(f"{len(skipped)} packages were not checked: {skipped[0]['skip_reason']}")
    return [
        f"{one['name']} {one['version']}: {known['id']}, fixed in {' or '.join(known['fix_versions']) or '?'}"
        for one in answer["dependencies"]
        for known in one["vulns"]
    ]
