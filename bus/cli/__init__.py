"""The ``bus`` command. Each module holds one group of commands; what they need is imported when they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from bus.errors import BusError

FAILED = 1
USAGE = 2
_INTERRUPTED = 130
# Raised by what a command reads from JSON that lacks a field or has another shape.
_NOT_AS_EXPECTED = (LookupError, TypeError, AttributeError)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 when done, 1 after a failure, 2 for wrong usage; commands may have more."""
    code = run(argv)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(code)


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; errors are one line on standard error."""
    import typer  # noqa: PLC0415 - `import bus.cli` stays cheap

    from bus.cli.app import tree  # noqa: PLC0415

    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    called: list[str] = []
    try:
        code = typer.main.get_command(tree(arguments[0])).main(
            args=arguments, prog_name="bus", standalone_mode=False, obj=called
        )
    except typer.TyperException as error:
        return _usage(error)
    except BusError as error:
        return _complain(str(error), error.hint, FAILED)
    except (typer.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except BrokenPipeError:
        return FAILED
    except Exception as error:  # noqa: BLE001 - a person gets one line
        return _complain_of(error, called)
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "format_message", lambda: error)())
    if context is not None and message == context.get_help():  # a group without a command
        sys.stderr.write(message + "\n")
        return USAGE
    path = context.command_path if context is not None else "bus"
    message = message.replace(": Value error, ", ": ")  # what reads the values puts it before every reason
    return _complain(message, f"see {path} --help", USAGE)


def _complain_of(error: Exception, called: Sequence[str]) -> int:
    """Print an error that is none of the bus; ``called`` are the addresses that the command called."""
    if called and isinstance(error, _NOT_AS_EXPECTED):
        return _complain(f"{called[-1]} is not a bus, or one of another version", "check --server", FAILED)
    import logging  # noqa: PLC0415

    from bus.error_texts import error_text, kind_text  # noqa: PLC0415

    if logging.getLogger().handlers:  # of a process that serves
        logging.getLogger(__name__).critical("internal error", exc_info=error)
    text = str(error_text(error))
    return _complain(text if isinstance(error, OSError) else f"internal error ({kind_text(error)}): {text}", "", FAILED)


def _complain(message: str, hint: str, code: int) -> int:
    text = f"error: {message}" + (f" (hint: {hint})" if hint else "")
    sys.stderr.write(" ".join(text.split()) + "\n")
    return code
