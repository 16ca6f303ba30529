"""`make audit`: licences, known vulnerabilities and the list of all parts.

It exits with 1 if a licence is not allowed or a vulnerability is known; where CI is set, also if the service
that knows vulnerabilities did not answer.
"""

from __future__ import annotations

import os

from supply.licences import find_refused
from supply.locks import DEVELOPMENT, read_pins
from supply.parts import write_parts
from supply.vulnerabilities import ServiceSilent, find_vulnerabilities


def main() -> int:
    """Check and write all; return the exit code."""
    pins = read_pins(DEVELOPMENT)
    refused = find_refused(pins)
    print(f"licences: {len(pins)} packages, {len(refused)} refused", *refused, sep="\n  ")
    print(f"parts: {write_parts()}")
    try:
        known = find_vulnerabilities()
    except ServiceSilent as error:
        print(f"vulnerabilities: NOT CHECKED, for the service that knows them did not answer.\n  {error}")
        return 1 if refused or os.environ.get("CI", "") not in ("", "0", "false") else 0
    print(f"vulnerabilities: {len(known)} known", *known, sep="\n  ")
    return 1 if refused or known else 0


if __name__ == "__main__":
    raise SystemExit(main())
