"""`vedette up`, and the processes that it runs: `api` and `worker`."""

from __future__ import annotations

import asyncio

from cli.connecting import open_keyring, read_settings, serving_settings


def up() -> None:
    """Run everything: Postgres, Temporal, the API and a worker. Ctrl-C stops it."""
    from embedded import stack
    from embedded.report import Report

    asyncio.run(stack.up(read_settings(), Report()))


def api() -> None:
    """Run one API process."""
    import logs
    from api.server import serve
    from embedded import listener
    from embedded.process import watch_supervisor
    from settings import ExitCode, StartError
    from temporal.client import connection

    logs.configure("api")
    watch_supervisor()
    settings = serving_settings()
    inherited = listener.inherit_listener()
    if inherited is None and settings.api_processes > 1:
        raise StartError(
            f"VEDETTE_API_PROCESSES is {settings.api_processes}, but this is one process."
            " `vedette up` starts several on one port. Elsewhere, unset it and start as many on other ports.",
            ExitCode.SETTING,
        )
    # The application does these too, but would fail there with a traceback.
    open_keyring(settings, may_make_key=True)
    connection(settings)
    serve(settings, inherited or listener.listen(settings.host, settings.port), alone=inherited is None)


def worker() -> None:
    """Run one worker process."""
    import uvloop

    import logs
    import worker as worker_module
    from database import AWAY
    from embedded.process import watch_supervisor
    from embedded.temporal import prepare_given
    from settings import ExitCode, StartError
    from temporal.client import connection

    logs.configure("worker")
    watch_supervisor()
    settings = serving_settings()
    if settings.temporal_address is None:
        raise StartError("TEMPORAL_ADDRESS is not set.", ExitCode.TEMPORAL)
    connection(settings)  # reports at once which file is unusable
    # Left open: to close it would wait for tasks, and a worker of Temporal's SDK may never end. The process
    # ends right after this.
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(worker_module.run(settings, lambda: prepare_given(settings)))
    except AWAY as error:
        reason = (str(error).splitlines() or ["no answer"])[0]
        raise StartError(f"The database went away: {reason}", ExitCode.UNEXPECTED) from None
