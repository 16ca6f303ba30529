"""The image, as far as it can be made without Docker."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docker.files import copy_context, steps
from tests.stacks import ROOT


@dataclass(frozen=True)
class Image:
    """What the image has in `/app` and `/venv`, in folders of this machine."""

    app: Path
    venv: Path

    def here(self, text: str) -> str:
        """A path or command of the image for this machine."""
        return text.replace("/app", str(self.app)).replace("/venv", str(self.venv))

    def environment(self) -> dict[str, str]:
        """The environment of a program in it: nothing leads to the checkout."""
        path = f"{self.venv / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Made by the steps of the Dockerfile's first stage, in a clean folder.

    But the lock file is not installed anew: its packages are those that the tests run with.
    """
    folder = tmp_path_factory.mktemp("image")
    made = Image(folder / "app", folder / "venv")
    made.app.mkdir()
    for instruction, arguments in steps()[0]:
        if (instruction, arguments) == ("COPY", ". ."):
            copy_context(ROOT, made.app)
        elif instruction == "RUN" and "requirements.lock" in arguments:
            packages = next(made.venv.glob("lib/python*/site-packages"))
            (packages / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        elif instruction == "RUN":
            command = made.here(f"python() {{ '{sys.executable}' \"$@\"; }}; {arguments}")
            done = subprocess.run(["sh", "-ec", command], cwd=made.app, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return made
