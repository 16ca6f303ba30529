"""docs/monitoring.md names every metric, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parsed

from database import Database
from models.installation import backups
from models.installation.schema import find_time
from tests.api_server import Api

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
ROWS = re.findall(r"^\| (`vedette_.+?) \| (.+) \|$", PAGE, re.MULTILINE)


async def test_the_page_names_each_metric_with_its_labels(api: Api, database: Database) -> None:
    async with database.connection() as connection:
        await backups.note(connection, await find_time(connection))
    await api.http.get("/healthz")
    shown: dict[str, set[str]] = {}
    for family in parsed((await api.http.get("/metrics")).text):
        name = family.name + "_total" * (family.type == "counter")
        if family.name.startswith("vedette_"):
            shown[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    documented = {name: text for names, text in ROWS for name in re.findall(r"`(vedette_\w+)`", names)}
    assert documented.keys() == shown.keys()
    for name, labels in shown.items():
        assert all(f"`{label}`" in documented[name] for label in labels), name
