"""Victims as the list of ransomware.live has them; all of them are made up.

Their shape: https://github.com/JMousqueton/ransomware.live/blob/main/bin/shared_utils.py (posttemplate,
appender) and https://github.com/JMousqueton/ransomware.live/issues/126 (an entry), 2026-11-22.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from providers.darkweb import ransomwarelive
from providers.datasets import installed
from providers.datasets.installed import Provenance

ONION = "lockbitexampleexampleexampleexampleexampleexample00000.onion"


def victim(**changes: Any) -> dict[str, Any]:
    """One entry of the list."""
    told: dict[str, Any] = {
        "post_title": "Example Manufacturing",
        "group_name": "lockbit3",
        "discovered": "2026-08-05 07:21:07.666586",
        "description": "A maker of widgets. CVE-2026-1234 was used. Contact: ops@example.com:Summer2026!",
        "website": "example.com",
        "published": "2026-08-05 00:00:00.000000",
        "post_url": f"http://{ONION}/post/1",
        "country": "US",
        "activity": "Manufacturing",
        "duplicates": [],
        "extrainfos": [],
    }
    return told | changes


def install_victims(data: Path, *victims: Any) -> None:
    """Make these the whole list on this machine."""
    installed.folder(data).mkdir(parents=True, exist_ok=True)
    path = installed.folder(data) / "victims.new"
    ransomwarelive.write(path, victims)
    installed.install(
        data,
        "ransomwarelive",
        {"victims": path},
        Provenance(source="Ransomware.live", version="2026-11-21", licence="Ransomware.live terms of use"),
    )
