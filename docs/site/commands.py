"""The reference of the command line, from the tree of its commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

import typer

from bus.cli.app import tree
from docs.site.markdown import code, shell, table, words

_HEAD: Final = """\
# The command line

Generated from the code: the text of `bus COMMAND --help`, on one page. Every command has `--help`. The exit code is 0
for success, 1 for a failure and 2 for wrong usage. An error is one line on standard error, with a hint.
"""
_COMMON: Final = {
    "as_json": "prints JSON",
    "wide": "all columns of tables, even if lines are longer than the terminal; without it, the columns that fit",
    "columns": "only these columns of tables, in this order: `a,b`",
    "address": "the address of the bus; `BUS_URL`, else that of the context, else `http://127.0.0.1:8700`",
    "api_key": "the key for the bus; `BUS_API_KEY`",
    "context": "the bus to use, see `bus context`; `BUS_CONTEXT`, else the context in use",
}
_OPTIONS_OF_MANY: Final = ("--json", "--wide", "--columns", "--server", "--api-key", "--context")


def page() -> str:
    """Return the page."""
    lines = [*_HEAD.splitlines(), "", *_common()]
    for path, command in leaves():
        lines += _section(path, command)
    return "\n".join(lines)


def leaves() -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it."""
    yield from _walk("bus", typer.main.get_command(tree()))


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _walk(f"{path} {name}", inner)
    if not hasattr(command, "commands"):
        yield path, command


def _common() -> list[str]:
    rows = [[code(option), text] for option, text in zip(_OPTIONS_OF_MANY, _COMMON.values(), strict=True)]
    return [
        "Many commands have these options, which are not repeated below:",
        "",
        *table(("option", "it"), rows),
    ]


def _section(path: str, command: Any) -> list[str]:
    own = [each for each in command.params if not (each.name in _COMMON and each.opts[0] in _OPTIONS_OF_MANY)]
    shared = [each.opts[0] for each in command.params if each not in own]
    lines = [f"## {path}", "", *_prose(command.help or ""), *shell(_usage(path, command))]
    if own:
        lines += table(("argument or option", "default", "meaning"), map(_row, own))
    if shared:
        lines += [f"Also {', '.join(map(code, shared))}.", ""]
    return lines + example(command.epilog or "")


def _prose(text: str) -> list[str]:
    return [line for part in text.replace("\b", "").split("\n\n") for line in (words(part), "")]


def _usage(path: str, command: Any) -> str:
    arguments = [_argument(each) for each in command.params if each.param_type_name == "argument"]
    options = ["[OPTIONS]"] if len(arguments) < len(command.params) else []
    return " ".join([path, *options, *arguments])


def _argument(each: Any) -> str:
    name = each.metavar or each.name.upper().rstrip("_")
    shown = name if each.required or name.startswith("[") else f"[{name}]"
    return f"{shown}..." if each.nargs != 1 and "..." not in shown else shown


def _row(each: Any) -> list[str]:
    if each.param_type_name == "argument":
        return [code(_argument(each)), "", words(each.help or "")]
    names = ", ".join(map(code, [*each.opts, *each.secondary_opts]))
    meaning, said = _split(words(each.help or ""))
    if each.envvar:
        meaning += f" From {code(each.envvar)} where it is not given."
    if each.multiple and "repeatable" not in meaning:
        meaning += " Repeatable."
    return [names, said or _default(each), meaning.strip()]


def _split(text: str) -> tuple[str, str]:
    """Return what an option means, and its default where that is said in words."""
    meaning, bracket, default = text.partition("[default: ")
    return meaning.strip(), default.rstrip("]") if bracket else ""


def _default(each: Any) -> str:
    value = each.default
    if each.required:
        return "needed"
    if value is None or value in ("", [], (), False) or callable(value):
        return ""
    return code(getattr(value, "value", value))


def example(epilog: str) -> list[str]:
    """Return what stands below a command's help as a block: ``Example:  bus ...``, or a line for each."""
    text = epilog.replace("\b", "").strip("\n")
    _, colon, rest = text.partition(":")
    return shell(textwrap.dedent(rest.strip("\n")).strip()) if colon else []
