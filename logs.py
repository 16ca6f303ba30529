"""Structured logs: one line an event, JSON unless they are written to a terminal."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

import tracing

# The last line of defence: values under these names never reach a log line.
_SECRET_NAMES = frozenset({"authorization", "x-api-key", "password", "token", "key", "secret", "cookie"})
_TOKEN_IN_PATH = re.compile(r"(/(?:ingest|resume)/)[^/?\s\"']+")

# The types of the errors by which our activities say that they do not reach the database.
_AWAY = frozenset({"database_away", "no_beat"})


class _Faults(logging.Filter):
    """Leaves the SDK's tracebacks to faults of ours.

    Activities that were interrupted, because a run was cancelled or this process stops, are dropped: if the
    workflow has ended before the activity notices, the SDK treats that as a failure. While the database is
    away, or somebody signals with wrong arguments, the reason is enough.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return False
        message = record.getMessage()
        is_away = type(error).__module__.startswith("psycopg") or getattr(error, "type", "") in _AWAY
        if is_away or message.endswith("dropping the signal"):
            record.msg, record.args, record.exc_info = f"{message}: {error}", (), None
        return True


def _redact(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    for name, value in event.items():
        if name.lower() in _SECRET_NAMES:
            event[name] = "***"
        elif isinstance(value, str) and ("/ingest/" in value or "/resume/" in value):
            event[name] = _TOKEN_IN_PATH.sub(r"\1***", value)
    return event


def _to_json(event: EventDict, **_options: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def configure(process: str, *, level: int = logging.INFO) -> None:
    """Send every log of this process, ours and the libraries', to standard error in one format.

    Args:
        process: the name of this process (`api`, `worker`, `up`), on every line as `process`.
        level: the lowest level that is written.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        tracing.add_to_log,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    terminal = sys.stderr.isatty()
    final: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _redact]
    if terminal:
        final.append(structlog.dev.ConsoleRenderer())
    else:
        final += [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("uvicorn.access", "httpx", "httpcore", "alembic.runtime.plugins"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    for name in ("temporalio.activity", "temporalio.worker._workflow_instance"):
        logging.getLogger(name).filters[:] = [_Faults()]
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    structlog.contextvars.bind_contextvars(process=process)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of module `name`."""
    return structlog.stdlib.get_logger(name)
