"""The machines of docs/deploy.md: each has addresses of 127.0.0.0/8 and a folder of its own on this one.

A block is run, or its file written, on the machine that stands behind its language.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from embedded import cluster
from embedded.process import NO_HOME, as_user
from tests.documentation.pages import Block
from tests.stacks import ROOT, environment, eventually
from tests.topology.programs import Programs, make_programs
from tests.topology.units import PACKAGED, Unit, read_environment, read_unit

MACHINES = ("ca", "db1", "db2", "pool", "temporal", "app1", "app2", "proxy")
_OF_VEDETTE = ("app1", "app2")
_FOLDERS = re.compile(r"(?<![\w./])/(?:etc|var/lib|run)/(?!systemd)[\w./-]+")
_MADE = (
    "etc/vedette", "etc/pgbouncer", "etc/temporal", "etc/haproxy", "etc/systemd/system", "var/lib/postgresql",
    "var/lib/vedette", "run/postgresql",
)  # fmt: skip
# The Postgres that the tests have is built without TLS. PgBouncer has it, for its clients.
_WITHOUT_TLS = [
    (re.compile(r"^ssl(_\w+)? = .*\n", re.MULTILINE), ""),
    (re.compile(r"^hostssl ", re.MULTILINE), "host "),
    (re.compile(r"server_tls_sslmode = verify-full"), "server_tls_sslmode = disable"),
    (re.compile(r"(user=replicator |,127\.[\d.]+/vedette\?)sslmode=verify-full[& ]sslrootcert=[\w./]+"),
     r"\1sslmode=disable"),
]  # fmt: skip
_SYSTEMCTL = re.compile(r"systemctl (enable --now|restart|reload) ([\w -]+)")
_BLOCK_SECONDS = 60
_HANGUP = signal.SIGHUP


@dataclass
class Machines:
    """All machines.

    Attributes:
        folder: which has their folders.
        extra: settings of the service beside those of the page.
        run: the blocks that were run.
    """

    folder: Path
    extra: dict[str, str]
    run: list[Block] = field(default_factory=list[Block])
    units: dict[str, Unit] = field(default_factory=dict[str, Unit])

    def __post_init__(self) -> None:
        self.user = cluster.account(self.folder)
        self.prefix = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        self.url = f"https://{self.address(41)}:8443"
        self.programs: Programs = make_programs(self.folder / "bin", self.user)
        shared = self.folder / "shared"
        shared.mkdir()
        for machine in MACHINES:
            for name in _MADE:
                (self.folder / f"{machine}.internal" / name).mkdir(parents=True)
            (self.folder / f"{machine}.internal" / "etc/vedette/shared").symlink_to(shared)
            if machine not in _OF_VEDETTE:
                cluster_owner = self.folder / f"{machine}.internal"
                self._hand_over(cluster_owner)
        self._hand_over(shared)

    def _hand_over(self, folder: Path) -> None:
        if self.user is not None:
            subprocess.run(["chown", "-R", f"{self.user.pw_uid}:{self.user.pw_gid}", folder], check=True)

    def address(self, number: int) -> str:
        """The address here of 10.0.0.<number>."""
        return f"{self.prefix}.{number}"

    def here(self, text: str, machine: str) -> str:
        """The text with the addresses and folders of this machine."""
        text = text.replace("10.0.0.41/32", "127.0.0.1/32").replace("10.0.0.0/24", "127.0.0.0/8")
        dots = self.prefix.replace(".", r"\.")
        text = text.replace(r"10\.0\.0", dots).replace("10.0.0.", f"{self.prefix}.")
        text = text.replace("https://vedette.example.com", self.url).replace(":443 ", ":8443 ")
        text = text.replace("hdr Host vedette.example.com", f"hdr Host {self.address(41)}")
        text = text.replace("/opt/vedette/docker", str(ROOT / "docker"))
        for shown, real in _WITHOUT_TLS:
            text = shown.sub(real, text)
        return _FOLDERS.sub(lambda found: self.at(machine, found[0]), text)

    def at(self, machine: str, path: str) -> str:
        """A path of a machine, here."""
        return f"{self.folder}/{machine}.internal{path}"

    def unit(self, machine: str, name: str) -> Unit:
        """A unit that was started."""
        return self.units[f"{machine}/{name}"]

    async def do(self, blocks: Sequence[Block]) -> str:
        """Run blocks in order, or write their files; what the last one wrote."""
        output = ""
        for block in blocks:
            machines, _, path = block.role.partition(" ")
            for machine in machines.split(","):
                assert machine in MACHINES, f"{block.place}: there is no machine {machine!r}"
                if path:
                    self._write(block, machine, path)
                else:
                    assert block.language == "sh", f"{block.place}: a file has a path"
                    output = await self._type(block, machine)
            self.run.append(block)
        return output

    def _write(self, block: Block, machine: str, path: str) -> None:
        file = Path(f"{self.folder}/{machine}.internal{path}")
        is_unit = path.startswith("/etc/systemd")
        file.write_text(block.text if is_unit else self.here(block.text, machine))
        if machine not in _OF_VEDETTE and self.user is not None:
            os.chown(file, self.user.pw_uid, self.user.pw_gid)

    async def _type(self, block: Block, machine: str) -> str:
        """Run the commands of a block; what its last part wrote."""
        output, part = "", list[str]()
        for line in block.text.splitlines():
            if (found := _SYSTEMCTL.fullmatch(line)) is None:
                part.append(line)
                continue
            output = await self._shell(block, machine, "\n".join(part))
            part = []
            for name in found[2].split():
                await self._control(machine, found[1], name)
        return await self._shell(block, machine, "\n".join(part)) if part else output

    async def _shell(self, block: Block, machine: str, text: str) -> str:
        own = machine in _OF_VEDETTE
        given = environment(Path("unset"), **self.extra) if own else {**cluster.environment(), **NO_HOME}
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "--norc", "-euo", "pipefail", "-c", self.here(text, machine)],
            cwd=self.at(machine, "/etc"), env={**given, "PATH": self.programs.path}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_BLOCK_SECONDS, **as_user(None if own else self.user),
        )  # fmt: skip
        assert done.returncode == 0, f"{block.place}:\n{text}\n{done.stdout}\n{self.tails(machine)}"
        return done.stdout

    async def _control(self, machine: str, what: str, name: str) -> None:
        key = f"{machine}/{name}"
        if what == "reload":
            self.units[key].send(_HANGUP)
        elif key in self.units:
            await self.units[key].restart()
        else:
            self.units[key] = self.make_unit(machine, name)
            await self.units[key].start()
        if name in PACKAGED:  # these tell systemd when they are ready
            await eventually(self.units[key].listens, 10, f"{key} listens")

    def make_unit(self, machine: str, name: str, **changes: str) -> Unit:
        """A unit by its file, with these variables beside those of its files."""
        path = Path(self.at(machine, f"/etc/systemd/system/{name}.service"))
        file = read_unit(path.read_text() if path.exists() else PACKAGED[name])
        program, *arguments = file.command.split()
        given = environment(Path("unset"), **self.extra) if machine in _OF_VEDETTE else cluster.environment()
        for one in file.environment_files:
            given |= read_environment(Path(self.at(machine, one)).read_text())
        words = [*self.programs.places[program], *(self.here(word, machine) for word in arguments)]
        user = None if machine in _OF_VEDETTE else self.user
        log = self.folder / "logs" / f"{machine}-{name}.log"
        return Unit(f"{machine}/{name}", file, words, given | changes, log, user)

    def tails(self, machine: str = "") -> str:
        """The ends of the logs of a machine's units."""
        logs = sorted((self.folder / "logs").glob(f"{machine}*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    async def stop(self) -> None:
        """Stop all: first what needs others."""
        order = ("haproxy", "vedette-api", "vedette-worker", "temporal", "pgbouncer", "postgresql")
        for name in order:
            found = [unit for key, unit in self.units.items() if key.endswith(f"/{name}")]
            await asyncio.gather(*(unit.stop() for unit in found))
