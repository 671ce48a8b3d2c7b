"""Structured logs: one JSON object a line, or colours on a terminal; message bodies are never logged."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog

# These libraries log each request; and while a server is away, its client logs ten lines a second, where the bus says
# once what is wrong.
QUIET: Final = {
    "uvicorn": logging.WARNING,
    "httpx": logging.WARNING,
    "aiokafka": logging.CRITICAL,
    "aiormq": logging.CRITICAL,
    "aio_pika": logging.CRITICAL,
    "kazoo": logging.CRITICAL,
}


def configure_logs(*, level: str, json: bool) -> None:
    """Send the standard library's loggers and structlog through one renderer to stderr."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    renderer: structlog.types.Processor = structlog.processors.JSONRenderer() if json else _console()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info if json else _keep,
            renderer,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(quiet)
    logging.getLogger("uvicorn.error").addFilter(_is_not_about_malformed_input)


def _is_not_about_malformed_input(record: logging.LogRecord) -> bool:
    """Drop uvicorn's records about malformed input, with which a peer could fill the log."""
    return not record.getMessage().startswith("Invalid ")


def _keep(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    return event


def _console() -> structlog.dev.ConsoleRenderer:
    # Tracebacks without local variables: those hold secrets and message bodies.
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
