"""Attacks on a separate stack, one case after the other, and a table of the results.

    python -m bench.abuse [--only TEXT]

The exit code is 1 if something did not hold. Nothing but this machine is attacked, over loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench.abuse.cases import Case, Tally, tried
from bench.abuse.every import CASES
from bench.abuse.target import attacked
from bench.machine import machine

_MOST_SHOWN = 6


async def _main(only: str) -> int:
    started, broken = time.monotonic(), 0
    chosen = [case for name, case in CASES.items() if only.lower() in name.lower()]
    print(machine())
    print(f"{'case':22} {'tried':>6} {'held':>6}  {'took':>6}  what, and figures")
    with tempfile.TemporaryDirectory(prefix="vedette-abuse-") as name:
        parent = Path(name)
        parent.chmod(0o711)
        async with attacked(parent / "data", full=True) as target:
            for case in chosen:
                start = time.monotonic()
                tally = await tried(case, target)
                _show(case, tally, time.monotonic() - start)
                broken += len(tally.broken)
    took = time.monotonic() - started
    print(f"{len(chosen)} cases in {took:.0f} s; {broken or 'nothing'} did not hold.")
    return 1 if broken else 0


def _show(case: Case, tally: Tally, seconds: float) -> None:
    figures = "; ".join(f"{name} {value}" for name, value in tally.figures.items())
    print(f"{case.name:22} {tally.tried:6} {tally.held:6}  {seconds:4.0f} s  {case.what}", flush=True)
    if figures:
        print(f"{'':46}{figures}")
    for text in tally.broken[:_MOST_SHOWN]:
        print(f"{'':24}did not hold: {text}")
    if len(tally.broken) > _MOST_SHOWN:
        print(f"{'':24}and {len(tally.broken) - _MOST_SHOWN} more", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only the cases whose name has this text")
    sys.exit(asyncio.run(_main(parser.parse_args().only)))
