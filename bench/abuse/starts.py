"""Starts on a folder with a wrong key or wrong files, the output of a start, and its user."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout

import psutil

from bench.abuse.cases import Tally, case
from bench.abuse.target import Target, is_root
from tests.stacks import StackProcess, vedette

_KEY = "vedette_live_"


async def _starts(stack: StackProcess) -> bool:
    """Return whether a stack becomes ready; the reason of a failure is suppressed."""
    with redirect_stdout(io.StringIO()):
        try:
            await stack.ready()
        except AssertionError:
            return False
    return True


@case("wrong root key", "a start over a used folder with another VEDETTE_SECRET_KEY, then with its own")
async def wrong_root_key(target: Target, tally: Tally) -> None:
    """Check that a start that cannot open the sealed values refuses, and harms nothing."""
    folder = await target.used_folder()
    wrong = StackProcess(folder, VEDETTE_SECRET_KEY="x" * 40)
    ran, code = await _starts(wrong), await wrong.stop()
    tally.check(not ran and code == 8, "another key ends with 8", "it runs" if ran else f"exit code {code}")
    own = StackProcess(folder)
    ran, code = await _starts(own), await own.stop()
    tally.check(ran and code == 0, "its own key starts again", f"exit code {code}")


@case("odd starts", "a corrupt first-account.json, a misspelt setting, output that is no terminal")
async def odd_starts(target: Target, tally: Tally) -> None:
    """Check that a start works without its account file, names unknown settings, and shows no key."""
    tally.check(_KEY not in target.stack.said, "the first start shows no key where there is no terminal")
    config = vedette(target.stack.data, "config", VEDETTE_PROT="1")
    near = "VEDETTE_PORT" in (config.stderr + config.stdout).partition("VEDETTE_PROT")[2].partition("\n")[0]
    tally.check(near, "config names the nearest of a misspelt setting", config.stderr[-200:])
    folder = await target.used_folder()
    account = folder / "first-account.json"
    key = json.loads(account.read_text())["api_key"]
    for name, text in {"cut off": account.read_text()[:40], "of another kind": "[]"}.items():
        account.write_text(text)
        stack = StackProcess(folder, VEDETTE_PROT="1")
        started = await _starts(stack)
        await stack.stop()
        tally.check(started, f"first-account.json {name} does not stop the stack")
        tally.check(key not in stack.said and _KEY not in stack.said, f"no key with one {name}")
        warned = [line for line in stack.said.splitlines() if "VEDETTE_PROT" in line]
        tally.check(any("VEDETTE_PORT" in line for line in warned), "up names the nearest setting", warned)
        if not target.full:
            break


@case("children", "whom the parts of a stack run as that is started as root")
async def children_run_as(target: Target, tally: Tally) -> None:
    """Check that as root, only the supervisor is root."""
    if not is_root():
        return
    for name in target.stack.record.children:
        user = psutil.Process(target.stack.child(name)).uids().effective
        tally.check(user != 0, f"{name} is not root", f"uid {user}")
