"""Files that a command writes: whole, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cli.errors import BadInput


@contextmanager
def replace_file(output: Path) -> Generator[IO[bytes]]:
    """Yield a file beside `output`, which takes its place at the end of the block.

    What is no regular file, what `/dev` has for one, such as `/dev/stdout`, and what lies in a folder that
    takes no other file, is written itself.

    Raises:
        BadInput: it cannot be written.
    """
    try:
        path = output.resolve()  # a link stays one
    except (OSError, RuntimeError) as error:  # links in a circle
        raise BadInput(f"--output: {output} cannot be written: {error}.") from None
    is_device = Path("/dev") in output.parents or (output.exists() and not output.is_file())
    in_place = is_device or (output.exists() and not os.access(path.parent, os.W_OK))
    staging = output if in_place else path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with staging.open("wb" if in_place else "xb") as file:
            yield file
        if staging != output:
            if path.exists():
                shutil.copymode(path, staging)
            staging.replace(path)
    except OSError as error:
        raise BadInput(f"--output: {output} cannot be written: {error.strerror}.") from None
    finally:
        if staging != output:
            staging.unlink(missing_ok=True)
