"""Files that a command writes: whole, or not at all."""

from __future__ import annotations

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

    What is no regular file, and what `/dev` has for one, such as `/dev/stdout`, is written itself.

    Raises:
        BadInput: it cannot be written.
    """
    path = output.resolve()  # a link stays one
    is_device = Path("/dev") in output.parents or (output.exists() and not output.is_file())
    staging = output if is_device else path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with staging.open("wb" if is_device else "xb") as file:
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
