"""Every command of ``bus`` that the docs name is one that there is, with the options that they give it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from bus.cli.app import tree
from tests.harness.process import ROOT
from tests.unit.docs.docs_pages import PAGES

# As a reader types it: at the beginning of a line or behind a prompt, a pipe, or variables; and in running text.
TYPED = re.compile(r"(?:^|[|;&] *|^(?:[A-Z_]+=\S+ +)+)bus ((?:[^\n#|;&]|\\\n)*)", re.MULTILINE)
FENCED = re.compile(r"^ *```(?:sh|bash|)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`bus ([^`]+)`(?!`)")
WORD = re.compile(r"[a-z][a-z-]*")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


@cache
def root() -> Any:
    return typer.main.get_command(tree())


def named(page: str) -> Iterator[str]:
    """Yield what stands behind ``bus`` in a page's commands."""
    for block in FENCED.findall(page):
        yield from TYPED.findall(block.replace("\\\n", " "))
    yield from INLINE.findall(FENCED.sub("", page).replace("\n", " "))


def wrong(text: str) -> str:
    """Return what a command has that there is not; nothing for a command that is well."""
    command, words = root(), text.split()
    while hasattr(command, "commands") and words and WORD.fullmatch(words[0]):
        names = words.pop(0)
        if names not in command.commands:
            return f"bus {text}: there is no {names}"
        command = command.commands[names]
    if hasattr(command, "commands"):
        return ""  # `bus pipeline`, or what stands for several: `bus lookup plan|start`
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    unknown = [option for option in OPTION.findall(text) if option not in known]
    return f"bus {text}: there is no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_are_there(path: Path) -> None:
    assert [fault for text in named(path.read_text("utf-8")) if (fault := wrong(text))] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("resend --destination C --dry-run", ""),
        ("resend --destinations C", "--destinations"),
        ("destination make C", "no make"),
        ("nothing", "no nothing"),
        ("pipeline", ""),
    ],
)
def test_what_is_not_there_is_found(text: str, fault: str) -> None:
    assert fault in wrong(text)
    assert bool(fault) == bool(wrong(text))


def test_commands_are_looked_for_where_readers_see_them() -> None:
    page = "```sh\nBUS_URL=x bus up --data d  # bus no\necho | bus send c\n```\nAsk `bus status`, not `bus.up`.\n"
    assert [text.strip() for text in named(page)] == ["up --data d", "send c", "status"]
