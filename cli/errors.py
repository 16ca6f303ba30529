"""Bad input at the command line, named as the user gave it: by option or argument, not by field."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager


class BadInput(Exception):
    """Input that does not fit. The message has a line for each option or argument."""


@contextmanager
def naming(shown: Mapping[str, str]) -> Generator[None]:
    """Say of what the models refuse which option or argument it came in by.

    Args:
        shown: the models' fields, or their codes where no field is named → option or argument.

    Raises:
        BadInput: they refuse something.
    """
    from models.errors import Invalid, ModelError

    try:
        yield
    except Invalid as error:
        found = [(one.pointer.strip("/").split("/")[0], one.message) for one in error.errors]
    except ModelError as error:
        found = [(error.code, error.message)]
    else:
        return
    raise BadInput("\n".join(f"{shown[field]}: {text}" if field in shown else text for field, text in found))
