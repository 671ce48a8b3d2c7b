"""Whatever a page says, it says in every language that there is."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin.pages.words import LANGUAGES, catalogue, words_of
from tests import texts

IN_CODE = texts.extracted()
TRANSLATED = [language for language in LANGUAGES if language != "en"]
each_language = pytest.mark.parametrize("language", TRANSLATED)


def path_of(language: str) -> Path:
    return texts.CATALOGUES / language / "LC_MESSAGES" / "pier.po"


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def arguments(*keywords: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield what the code gives to keywords, each with its module."""
    for package in texts.PACKAGES:
        for path in sorted((texts.ROOT / package).rglob("*.py")):
            source = path.read_text("utf-8")
            if any(f"{keyword}(" in source for keyword in keywords):
                yield from ((path.name, call.args[0]) for call in texts.calls(ast.parse(source), keywords))


def is_from_a_table(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)


def test_templates_are_constants_or_from_a_table() -> None:
    odd = [
        f"{module}: {ast.unparse(argument)}"
        for module, argument in arguments("sentence", "N_")
        if not (is_from_a_table(argument) or isinstance(argument, ast.Constant))
    ]
    assert odd == ["reasons.py: text"], "that one is from REASONS"


def test_no_text_is_chosen_or_put_together_where_it_is_said() -> None:
    odd = [
        f"{module}: {ast.unparse(argument)}"
        for module, argument in arguments("t", "sentence", "N_")
        if isinstance(argument, ast.JoinedStr | ast.BinOp)
        or (isinstance(argument, ast.IfExp) and {type(argument.body), type(argument.orelse)} & {ast.Constant})
    ]
    assert odd == []


def test_sentences_of_the_bus_are_found() -> None:
    modules = {module.rpartition("/")[2] for module in IN_CODE.values()}
    assert {"alarms.py", "hops.py", "reasons.py", "principals.py"} <= modules
    assert "attempt {n}, stuck until the compensator handed it over" in IN_CODE
    assert "no receiver is alive: new messages are refused; producers keep theirs in their spools" in IN_CODE


@each_language
def test_every_text_is_translated(language: str) -> None:
    missing = {text: module for text, module in IN_CODE.items() if text not in catalogue(language)}
    assert not missing, "run make texts, and translate them"


@each_language
def test_no_translation_is_left_over(language: str) -> None:
    assert set(catalogue(language)) - set(IN_CODE) == set(), "run make texts"


@each_language
def test_both_languages_name_the_same_values(language: str) -> None:
    assert {text: said for text, said in catalogue(language).items() if fields(text) != fields(said)} == {}


@each_language
def test_a_catalogue_is_as_make_texts_writes_it(language: str) -> None:
    found = texts.read(path_of(language))
    assert texts.written(found, language) == path_of(language).read_text("utf-8")
    assert [message.id for message in found if message.fuzzy] == []


@each_language
def test_a_catalogue_is_read_as_babel_reads_it(language: str) -> None:
    assert catalogue(language) == {
        message.id: message.string for message in texts.read(path_of(language)) if message.id
    }


def test_values_are_filled_in_and_a_text_without_values_stays_as_it_is() -> None:
    assert words_of("en")("Find “{text}”", text="{x}") == "Find “{x}”"
    assert words_of("zh")("Find “{text}”", text="a") == "查找“a”"
    assert words_of("zh")("100 {%}") == "100 {%}"
