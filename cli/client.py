"""The service over HTTP, as developers' commands use it: its address, and the meaning of its answers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from cli.connection import KEY, NO_URL, URL, ServiceConnection, find_connection
from cli.errors import BadInput, Refused, failure
from cli.printing import printable

if TYPE_CHECKING:
    import httpx

_SECONDS = 60.0
_WAITS, _LONGEST_WAIT = 3, 60
_RECONNECTS, _RECONNECT_SECONDS = 30, 1.0


class SentEvent(NamedTuple):
    """A server-sent event."""

    name: str
    data: dict[str, Any]


class Service:
    """The service, with an open connection."""

    def __init__(self, http: httpx.Client, connection: ServiceConnection, shown: Mapping[str, str]) -> None:
        """Prepare.

        Args:
            http: a client with the address and the key.
            connection: the connection to the service.
            shown: fields, or codes of problems → the option or argument of the input.
        """
        self._http = http
        self.connection = connection
        self._shown = shown

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON at a path; parameters that are None are left out."""
        params = {name: value for name, value in query.items() if value is not None}
        return self.call("GET", path, params=params)

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """Return the JSON answer to a POST."""
        params = {name: value for name, value in query.items() if value is not None}
        return self.call("POST", path, params=params, **({} if body is None else {"json": body}))

    def call(self, method: str, path: str, **request: Any) -> Any:
        """Return the JSON answer to a request, or None for an empty one.

        Raises:
            Refused: the input is invalid.
            StartError: the service is unreachable, refuses this key, or has failed.
        """
        with self.stream(method, path, **request) as response:
            content = response.read()
        if "x-request-id" not in response.headers:  # every answer of the service has it
            raise self._strange(response.status_code)
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise self._strange(response.status_code) from None

    @contextmanager
    def stream(self, method: str, path: str, **request: Any) -> Generator[httpx.Response]:
        """Yield the answer to a request, to be read as it arrives. Raises the errors of `call`."""
        import httpx

        try:
            for waits in range(_WAITS + 1):
                with self._http.stream(method, path, **request) as response:
                    if response.is_success:
                        yield response
                        return
                    response.read()
                    if not self._has_waited(response, waits):
                        raise self._refusal(response)
        except httpx.TimeoutException:
            raise self._away(f"has not answered within {_SECONDS:.0f} s") from None
        except httpx.HTTPError as error:
            raise self._away(f"cannot be reached ({str(error) or type(error).__name__})") from None

    def events(self, path: str) -> Generator[SentEvent]:
        """Yield the events at a path up to `end`, reconnecting as needed."""
        import httpx

        last, failures, what = "", 0, "has ended the stream of events again and again"
        while failures < _RECONNECTS:
            timeout = httpx.Timeout(_SECONDS)
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
            try:
                with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                    if response.status_code == 204:
                        return
                    if response.is_success:
                        for event, seen in _read_events(response):
                            last, failures = seen, 0
                            yield event
                            if event.name == "end":
                                return
                    elif response.status_code not in (429, 502, 503, 504):
                        response.read()
                        raise self._refusal(response)
            except httpx.HTTPError as error:
                if not last:
                    what = f"cannot be reached ({str(error) or type(error).__name__})"
            failures += 1
            time.sleep(_RECONNECT_SECONDS)
        raise self._away(what)

    def _has_waited(self, response: httpx.Response, waits: int) -> bool:
        """Wait as long as the service asks, if that is short enough; return whether it waited."""
        after = response.headers.get("retry-after", "")
        if response.status_code != 429 or not after.isdecimal():
            return False
        if waits == _WAITS or int(after) > _LONGEST_WAIT:
            return False
        seconds = max(1, int(after))
        reason = printable(_problem(response).get("message", "Too many requests."))
        print(f"{reason} Trying again in {seconds} s ({waits + 1} of {_WAITS}).", file=sys.stderr)
        time.sleep(seconds)
        return True

    def _refusal(self, response: httpx.Response) -> Exception:
        """Return the error for an unsuccessful answer, in words for the user of the command."""
        problem, status = _problem(response), response.status_code
        if not problem:
            return self._strange(status)
        said = str(problem.get("message"))
        if status == 401:
            mend = f"Set {KEY} to a key that works; `vedette keys create --account <email>` makes one."
            return failure(
                f"{self.connection.url} does not accept the key of {self.connection.key_from}. {mend}",
                "REFUSED",
            )
        if status == 403:
            mend = (
                f"The key is that of {self.connection.key_from}; `vedette keys create --scope` makes another."
            )
            return failure(f"{said} {mend}", "REFUSED")
        if status == 402:
            counts = f"{problem.get('required')} needed, {problem.get('balance')} there"
            return failure(f"{said} ({counts}.) An operator adds some by `vedette credits grant`.", "REFUSED")
        if status == 429 or status >= 500:
            told = f"{said} ({problem.get('code')}, request {problem.get('request_id')})"
            return failure(told, "SERVICE")
        return Refused(self._shown, problem)

    def _strange(self, status: int) -> Exception:
        return self._away(f"does not answer as vedette does (status {status})")

    def _away(self, what: str) -> Exception:
        mend = f"Is {URL} right, and does `vedette up` run there?"
        return failure(f"The service at {self.connection.url} {what}. {mend}", "SERVICE")


@contextmanager
def connect_service(shown: Mapping[str, str]) -> Generator[Service]:
    """Yield the service for the block.

    Args:
        shown: as in `Service`.

    Raises:
        StartError: its address or the key is missing.
    """
    import httpx

    connection = find_connection()
    parts = urlsplit(connection.url)
    is_plain = parts.scheme == "http"
    if is_plain and not connection.here:
        print(f"{URL} is http: whoever is on the way to {parts.hostname} reads the key.", file=sys.stderr)
    headers = {"Authorization": f"Bearer {connection.key}", "User-Agent": "vedette-cli"}
    try:
        # A proxy cannot reach this machine, and loading the trusted certificates takes a while.
        http = httpx.Client(
            base_url=connection.url, headers=headers, timeout=_SECONDS,
            trust_env=not (is_plain and connection.here), verify=not is_plain,
        )  # fmt: skip
    except httpx.InvalidURL:
        raise failure(NO_URL, "SETTING") from None
    except (ImportError, ValueError, OSError) as error:
        told = f"The proxy or the certificates that the environment names cannot be used: {error}"
        raise failure(told, "SETTING") from None
    with http:
        yield Service(http, connection, shown)


def part(text: str) -> str:
    """Return a text as one segment of a path."""
    if text in ("", ".", ".."):
        raise BadInput(f"{text or 'An empty text'} is no id.")
    return quote(text, safe="")


def _problem(response: httpx.Response) -> dict[str, Any]:
    """Return the problem document of an answer; empty if it has none."""
    try:
        found: Any = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) and "code" in found and "message" in found else {}  # pyright: ignore[reportUnknownVariableType]


def _read_events(response: httpx.Response) -> Generator[tuple[SentEvent, str]]:
    """Yield the events of one connection, each with its id."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line:
            if "data" in fields:
                yield SentEvent(fields.get("event", ""), json.loads(fields["data"])), fields.get("id", "")
            fields = {}
