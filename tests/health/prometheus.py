"""A Prometheus that scrapes and evaluates each second, so that what alerts after minutes does so at once."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.stacks import ROOT, eventually, free_port

RULES = ROOT / "ops" / "prometheus" / "rules.yml"
BOARD = ROOT / "ops" / "grafana" / "vedette.json"


class Prometheus:
    """A running Prometheus.

    Attributes:
        fired: the alerts that have fired so far.
    """

    def __init__(self, url: str) -> None:
        self.fired: set[str] = set()
        self._url = url

    async def is_ready(self) -> bool:
        """Return whether it answers, and has scraped."""
        return bool(await self._names("up == 1"))

    async def until_fired(self, *alerts: str, seconds: float = 30) -> None:
        """Wait until all of these have fired."""

        async def have_fired() -> bool:
            self.fired |= await self._names('ALERTS{alertstate="firing"}')
            return self.fired.issuperset(alerts)

        try:
            await eventually(have_fired, seconds, "all have fired")
        except AssertionError as error:
            raise AssertionError(f"not fired: {sorted(set(alerts) - self.fired)}") from error

    async def _names(self, query: str) -> set[str]:
        try:
            async with httpx.AsyncClient(base_url=self._url, trust_env=False) as client:
                found = (await client.get("/api/v1/query", params={"query": query})).json()
        except (httpx.HTTPError, ValueError):
            return set()
        series = found["data"]["result"] if found["status"] == "success" else []
        return {one["metric"].get("alertname", one["metric"].get("job", "")) for one in series}


def written_configuration(folder: Path, target: str) -> Path:
    """The configuration, with our rules in a hurry."""
    rules = re.sub(r"\bfor: \w+", "for: 0s", RULES.read_text()).replace("[15m]", "[30s]")
    (folder / "rules.yml").write_text(rules)
    configuration = folder / "prometheus.yml"
    configuration.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: vedette, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    return configuration


@asynccontextmanager
async def watching(program: str, folder: Path, url: str) -> AsyncGenerator[Prometheus]:
    """Watch the service at `url` until the block ends."""
    port = free_port()
    configuration = written_configuration(folder, url.removeprefix("http://"))
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    watch = Prometheus(f"http://127.0.0.1:{port}")
    try:
        await eventually(watch.is_ready, 30, "Prometheus has scraped")
        yield watch
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


def metrics_named(text: str) -> set[str]:
    """The series that a text names."""
    return set(re.findall(r"\bvedette_[a-z_]+\b", text))
