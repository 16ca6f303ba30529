"""The services of the compose file as processes of this machine, in its order, from the image's folder.

Commands, environments, healthchecks and conditions are the file's. What is of Docker is put in the place of
what it stands for: paths of the image and of volumes, and names and ports of hosts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedded.process import bound_to_parent
from tests.docker.conftest import Image
from tests.docker.files import is_ours, services, words
from tests.stacks import environment, eventually

_ENTRYPOINT = ["vedette"]
_SECONDS = 90


@dataclass
class Containers:
    """The services, and which of them run.

    Attributes:
        folder: of their data, credentials and logs.
        image: where they have their programs from.
        hosts: what stands for a name or a port of a container: `temporal:7233` → `127.0.0.1:41001`.
        path: further folders with programs.
        extra: a service's environment beside that of the compose file.
    """

    folder: Path
    image: Image
    hosts: Mapping[str, str]
    path: str
    extra: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    def __post_init__(self) -> None:
        self.services = services()

    def credentials(self, audience: str) -> Path:
        """The folder that stands for the volume of credentials of these."""
        return self.folder / "credentials" / audience

    def here(self, text: str, volumes: list[str]) -> str:
        """A word of a command or environment, for this machine."""
        if text == "/credentials":  # of all volumes that are mounted in it
            return str(self.folder / "credentials")
        for volume in volumes:
            source, target = volume.split(":")[:2]
            if source.endswith("-credentials"):
                text = text.replace(target, str(self.credentials(source.removesuffix("-credentials"))))
            elif source == "data":
                text = str(self.folder / "data") if text == target else text
        for name, place in self.hosts.items():
            text = text.replace(name, place)
        return self.image.here(text)

    def command(self, name: str) -> list[str]:
        """Return what a service runs."""
        service = self.services[name]
        default = _ENTRYPOINT if is_ours(service) else []
        found = words(service.get("entrypoint")) or default
        return [self.here(word, service.get("volumes", [])) for word in found + words(service.get("command"))]

    def environment(self, name: str) -> dict[str, str]:
        """The environment of a service."""
        service = self.services[name]
        volumes = service.get("volumes", [])
        given = {one: self.here(str(value), volumes) for one, value in service.get("environment", {}).items()}
        offline = environment(self.folder / "data")
        base = {one: value for one, value in offline.items() if one not in ("VEDETTE_DATA", "VEDETTE_PORT")}
        path = f"{self.path}:{self.image.environment()['PATH']}"
        return {**base, **self.image.environment(), **given, **self.extra.get(name, {}), "PATH": path}

    async def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service that ends."""
        return await asyncio.to_thread(
            subprocess.run,
            self.command(name),
            cwd=self.folder,
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )

    def start(self, name: str) -> None:
        """Start a service that stays."""
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.command(name),
                cwd=self.folder,
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=bound_to_parent(signal.SIGKILL),
            )

    def log(self, name: str) -> Path:
        """Return what a service has said."""
        return self.folder / f"{name}.log"

    async def is_healthy(self, name: str) -> bool:
        """Return whether the healthcheck of a service succeeds."""
        return (await self.check(name)).returncode == 0

    async def check(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the healthcheck of a service once."""
        service: dict[str, Any] = self.services[name]
        kind, *test = service["healthcheck"]["test"]
        assert kind == "CMD"
        return await asyncio.to_thread(
            subprocess.run,
            [self.here(word, service.get("volumes", [])) for word in test],
            cwd=self.folder,
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )

    async def up(self, *standing_in: str) -> None:
        """Bring the services up in their order, each when what it waits for is there.

        Those that something else stands in for are taken to be up.
        """
        up = set(standing_in)
        while waiting := [name for name in self.services if name not in up]:
            name = next(one for one in waiting if up >= self.services[one].get("depends_on", {}).keys())
            if "restart" in self.services[name]:
                self.start(name)
                await eventually(
                    lambda name=name: self._healthy_or_ended(name), _SECONDS, f"{name} is healthy"
                )
            else:
                done = await self.run(name)
                assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"
            up.add(name)

    async def _healthy_or_ended(self, name: str) -> bool:
        assert self.running[name].poll() is None, self.log(name).read_text()
        return await self.is_healthy(name)

    async def stop(self, name: str) -> int:
        """Stop a service as Docker does; its exit code."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            await eventually(lambda: process.poll() is not None, 60, f"{name} has ended")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        return process.returncode
