"""Whatever a page says, it says in Chinese too."""

from __future__ import annotations

import ast
import importlib
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import admin.pages
import bus
from admin.pages.words import chinese, words_of
from bus.domain.delivery.reasons import REASONS

FOLDER = Path(admin.pages.__file__).parent
BUS = Path(bus.__file__).parent
SPEAKERS = {"t", "page", "Place", "Look", "Span"}
NAMED = {
    "ROLES",
    "ROLE_DOES",
    "MAY",
    "LOGINS",
    "_DID",
    "_OUTCOMES",
    "_TITLES",
    "_SHORTCUTS",
    "_LOGIN_TEXTS",
    "NAMES",
    "STATES",
    "OUTCOMES",
    "PHASES",
}


def spoken(tree: ast.AST) -> Iterator[str]:
    """Yield the English texts of a module: what is given to ``t``, and what tables of texts have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SPEAKERS:
                arguments = node.args[:1] if name in ("t", "Look") else node.args[1:2]
                yield from (text for argument in arguments for text in constants(argument))
        elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in NAMED and node.value is not None:
            yield from (text for part in values(node.value) for text in constants(part))


def values(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Dict):
        return [value.elts[-1] if isinstance(value, ast.Tuple) else value for value in node.values]
    if isinstance(node, ast.Tuple):
        return [part.elts[-1] for part in node.elts if isinstance(part, ast.Tuple)]
    return []


def constants(node: ast.AST) -> Iterator[str]:
    """Yield the constant texts of an expression, those of both branches of a condition too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and any(map(str.isalpha, node.value)):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from constants(node.body)
        yield from constants(node.orelse)


def said() -> dict[str, str]:
    modules = (path for path in FOLDER.rglob("*.py") if path.parent.name != "chinese")
    return told() | {text: path.name for path in modules for text in spoken(ast.parse(path.read_text("utf-8")))}


@cache
def told() -> dict[str, str]:
    """Return the templates of the sentences of the bus, each with the module that says it."""
    by_path = {path: tree for path, tree in parsed().items() if path.name != "sentences.py"}
    texts = {text: path.name for path, tree in by_path.items() for text in templates(tree)}
    return texts | dict.fromkeys(REASONS, "reasons.py")


@cache
def parsed() -> dict[Path, ast.Module]:
    """Return the modules outside of the pages that make sentences."""
    folders = (BUS, *(BUS.parent / name for name in ("admin", "receiver", "dispatcher", "compensator")))
    modules = (path for folder in folders for path in folder.rglob("*.py") if FOLDER not in path.parents)
    sources = {path: path.read_text("utf-8") for path in modules}
    return {path: ast.parse(source) for path, source in sources.items() if "sentence(" in source}


def templates(tree: ast.AST) -> Iterator[str]:
    """Yield the templates of a module: what is given to ``sentence``, and the tables that it takes them from."""
    for argument in made(tree):
        yield from constants(argument)
    tables = {argument.value.id for argument in made(tree) if is_from_a_table(argument)}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in tables and node.value is not None:
            yield from (text for part in values(node.value) for text in constants(part))


def made(tree: ast.AST) -> list[ast.expr]:
    """Return the templates, as expressions, of the sentences that a module makes."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call.args[0] for call in calls if getattr(call.func, "id", "") == "sentence"]


def is_from_a_table(node: ast.expr) -> TypeGuard[ast.Subscript]:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)


def test_templates_are_constants_or_from_a_table() -> None:
    odd = [
        f"{path.name}: {ast.unparse(argument)}"
        for path, tree in parsed().items()
        for argument in made(tree)
        if not (is_from_a_table(argument) or list(constants(argument)))
    ]
    assert odd == ["reasons.py: text"], "that one is from REASONS"


def test_sentences_of_the_bus_are_found() -> None:
    assert {"alarms.py", "hops.py", "reasons.py", "principals.py"} <= set(told().values())
    assert "attempt {n}, stuck until the compensator handed it over" in told()
    assert "no receiver is alive: new messages are refused; producers keep theirs in their spools" in told()


def test_every_text_has_its_chinese() -> None:
    missing = {text: module for text, module in said().items() if text not in chinese()}
    assert not missing


def test_no_chinese_text_is_left_over() -> None:
    assert set(chinese()) <= set(said())


def test_a_text_is_said_in_one_way() -> None:
    modules = [
        importlib.import_module(f"admin.pages.chinese.{found.stem}") for found in (FOLDER / "chinese").glob("[a-z]*.py")
    ]
    differing = {text for module in modules for text, said in module.TEXTS.items() if chinese()[text] != said}
    assert not differing


def test_both_languages_name_the_same_values() -> None:
    def fields(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}

    assert {english: text for english, text in chinese().items() if fields(english) != fields(text)} == {}


def test_values_are_filled_in_and_a_text_without_values_stays_as_it_is() -> None:
    assert words_of("en")("Find “{text}”", text="{x}") == "Find “{x}”"
    assert words_of("zh")("Find “{text}”", text="a") == "查找“a”"
    assert words_of("zh")("100 {%}") == "100 {%}"
