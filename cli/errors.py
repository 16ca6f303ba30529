"""Bad input at the command line, named as the user typed it: by option or argument, not by field."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal


class BadInput(Exception):
    """Invalid input. The message has a line for each option or argument."""


class Refused(BadInput):
    """Input that the service rejects.

    Attributes:
        code: of the problem, stable.
        errors: the errors of the body, each with `pointer` and `message`; empty for other reasons.
        details: the whole problem document.
    """

    def __init__(self, shown: Mapping[str, str], problem: Mapping[str, Any]) -> None:
        """Take over the problem.

        Args:
            shown: as in `naming`.
            problem: the document of the service's answer.
        """
        self.code = str(problem.get("code"))
        self.errors: list[dict[str, Any]] = problem.get("errors") or []
        self.details = problem
        found = [(_key_of(one, shown), str(one["message"])) for one in self.errors]
        if not found:
            page = f"\nMore: {problem['type']}" if "type" in problem else ""
            found = [(self.code, f"{problem.get('message')}{page}")]
        super().__init__(_write_errors(found, shown))


@contextmanager
def naming(shown: Mapping[str, str]) -> Generator[None]:
    """Convert models' errors in the block to errors that name the option or argument.

    Args:
        shown: the models' fields, or their codes where no field is named → option or argument.

    Raises:
        BadInput: the models reject an input.
    """
    from models.errors import DomainError, Invalid

    try:
        yield
    except Invalid as error:
        found = [(one.pointer.strip("/").split("/")[0], one.message) for one in error.errors]
    except DomainError as error:
        found = [(error.code, error.message)]
    else:
        return
    raise BadInput(_write_errors(found, shown))


def _key_of(error: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """Return the key that names an error: its field, or its code if the field is unknown."""
    field = str(error.get("parameter") or error["pointer"].strip("/").split("/")[0])
    return error["code"] if not (field and field in shown) and error["code"] in shown else field


def _write_errors(found: Sequence[tuple[str, str]], shown: Mapping[str, str]) -> str:
    return "\n".join(f"{shown[field]}: {text}" if field in shown else text for field, text in found)


def failure(message: str, code: Literal["SETTING", "SERVICE", "REFUSED"]) -> Exception:
    """Return the error of a command that cannot continue, with the name of its exit code.

    The settings are imported here only, because that takes half a second.
    """
    from settings import ExitCode, StartError

    return StartError(message, ExitCode[code])
