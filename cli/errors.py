"""Bad input at the command line, named as the user gave it: by option or argument, not by field."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal


class BadInput(Exception):
    """Input that does not fit. The message has a line for each option or argument."""


class Refused(BadInput):
    """Input that the service does not take.

    Attributes:
        code: of the problem, stable.
        errors: what is wrong with the body, each with `pointer` and `message`; none for other reasons.
        details: the whole problem document.
    """

    def __init__(self, shown: Mapping[str, str], problem: Mapping[str, Any]) -> None:
        """Take the problem over.

        Args:
            shown: as in `naming`.
            problem: the document of the service's answer.
        """
        self.code = str(problem.get("code"))
        self.errors: list[dict[str, Any]] = problem.get("errors") or []
        self.details = problem
        found = [(_key_of(one, shown), str(one["message"])) for one in self.errors]
        super().__init__(_named(found or [(self.code, str(problem.get("message")))], shown))


@contextmanager
def naming(shown: Mapping[str, str]) -> Generator[None]:
    """Say of what the models refuse which option or argument it came in by.

    Args:
        shown: the models' fields, or their codes where no field is named → option or argument.

    Raises:
        BadInput: they refuse something.
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
    raise BadInput(_named(found, shown))


def _key_of(error: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """What an error is to be named by: its field, or its code where it has none that is known."""
    field = str(error.get("parameter") or error["pointer"].strip("/").split("/")[0])
    return error["code"] if not (field and field in shown) and error["code"] in shown else field


def _named(found: Sequence[tuple[str, str]], shown: Mapping[str, str]) -> str:
    return "\n".join(f"{shown[field]}: {text}" if field in shown else text for field, text in found)


def failure(message: str, code: Literal["SETTING", "SERVICE", "REFUSED"]) -> Exception:
    """Make the error of a command that cannot go on, with the name of its exit code.

    The settings are imported here alone: they take half a second.
    """
    from settings import ExitCode, StartError

    return StartError(message, ExitCode[code])
