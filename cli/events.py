"""`vedette events`: show events as a webhook receives them."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.client import Service, connect_service, part
from cli.errors import BadInput, Refused
from cli.groups import new_group
from cli.printing import Json, print_table, printable, short

if TYPE_CHECKING:
    from cli.receiver import Delivery, Receiver

commands = new_group("Events, as webhooks get them.")

_SHOWN = {"events": "--type", "url": "--url", "too_many_webhooks": "--type"}
_OPEN = "VEDETTE_ALLOW_PRIVATE_NETWORKS=127.0.0.1/32"


@commands.command("listen")
def events_listen(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = 0,
    type: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Repeatable, such as workflow.run.*; all by default."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="The address of a tunnel to this port, if the service is on another machine."),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(help="The secret of an existing webhook for this address; by default one is made."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print deliveries as they come, and whether their signatures are right. Ctrl-C ends it.

    A webhook for this receiver is created, and deleted at the end.
    """
    printer = _Printer(as_json)
    with _receiver(port, printer) as receiver, _ended_politely():
        if secret is not None:
            receiver.secret = _checked_secret(secret)
            _wait(receiver.url)
            return
        with connect_service(_SHOWN) as service, _webhook(service, receiver, url, type or ["*"]):
            _wait(url or receiver.url)


@commands.command("types")
def events_types(as_json: Json = False) -> None:
    """List the types of events."""
    with connect_service(_SHOWN) as service:
        found = service.get("/api/webhooks/event-types")
    if as_json:
        print(json.dumps(found, indent=2))
        return
    rows = [[one["name"], printable(one["description"])] for one in found["event_types"]]
    print_table(["type", "when"], rows)


class _Printer:
    """Prints deliveries, one at a time."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()
        self._seen: set[str] = set()

    def __call__(self, delivery: Delivery) -> None:
        """Print a delivery."""
        with self._lock:
            again = delivery.id in self._seen
            if not delivery.fault:
                self._seen.add(delivery.id)
            event = _event_of(delivery.body)
            told = _as_object(delivery, event, again) if self._as_json else _as_text(delivery, event, again)
            try:
                print(told, flush=True)
            except BrokenPipeError:
                os.kill(os.getpid(), signal.SIGTERM)  # no process reads the output any more
                raise


def _event_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _as_object(delivery: Delivery, event: Any, again: bool) -> str:
    known = {"webhook_id": delivery.id, "verified": not delivery.fault, "repeated": again}
    return json.dumps(known | ({"fault": delivery.fault} if delivery.fault else {}) | {"event": event})


def _as_text(delivery: Delivery, event: Any, again: bool) -> str:
    fields: dict[str, Any] = event if isinstance(event, dict) else {}  # pyright: ignore[reportUnknownVariableType]
    verdict = f"NOT VERIFIED: {delivery.fault}" if delivery.fault else "verified"
    name = printable(fields.get("event")) if fields else f"{len(delivery.body):,} bytes that are no event"
    head = f"{datetime.now():%H:%M:%S}  {name}  {verdict}{', sent again' if again else ''}"
    lines = [f"{head}  {printable(delivery.id)}".rstrip()]
    data: Any = fields.get("data")
    if isinstance(data, dict):
        known: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
        lines += [f"  {printable(key)}: {short(value, 200)}" for key, value in known.items()]
    return "\n".join(lines)


@contextmanager
def _receiver(port: int, printer: _Printer) -> Generator[Receiver]:
    """Run a receiver for the block."""
    from cli.receiver import Receiver

    try:
        receiver = Receiver(port, printer)
    except OSError as error:
        raise BadInput(f"--port: {port} cannot be listened on: {error.strerror}.") from None
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()


@contextmanager
def _webhook(service: Service, receiver: Receiver, url: str | None, types: list[str]) -> Generator[None]:
    """Create a webhook for the receiver, for the block."""
    if url is None and not service.connection.here:
        raise BadInput(
            f"--url: {service.connection.url} is not on this machine, and cannot reach {receiver.url}. Give "
            "the address of a tunnel that leads there, with --port."
        )
    body = {"url": url or receiver.url, "events": types, "description": "vedette events listen"}
    try:
        made = service.post("/api/webhooks", body)
    except Refused as refused:
        if any(one["code"] == "forbidden_address" for one in refused.errors):
            raise BadInput(
                f"The service sends nothing to private addresses. Start it with {_OPEN}, or give --url."
            ) from None
        raise
    receiver.secret = made["secret"]
    try:
        yield
    finally:
        with suppress(Refused):  # it was deleted already
            service.call("DELETE", f"/api/webhooks/{part(made['id'])}")


@contextmanager
def _ended_politely() -> Generator[None]:
    """Treat the signals that end processes and terminals like Ctrl-C, so that the webhook is deleted."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # Signals that nohup ignores stay ignored.
    ends = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    former = {number: signal.signal(number, interrupt) for number in ends}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _wait(url: str) -> None:
    print(f"Listening at {url}; Ctrl-C ends it.", file=sys.stderr, flush=True)
    while True:
        signal.pause()


def _checked_secret(secret: str) -> str:
    import base64

    try:
        base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise BadInput("--secret: This is no secret of a webhook: whsec_ and base64.") from None
    return secret
