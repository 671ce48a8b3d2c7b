"""Whatever a page says, it says in every language that there is."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic_core.core_schema import ErrorType

import bus.errors
from admin.pages.words import LANGUAGES, catalogue, words_of
from admin.requests.problems import _VALUES, _why
from bus.localized_text import LocalizedText
from tests import texts

SHOWN = ("admin", "bus/cluster", "bus/domain", "bus/security", "bus/stores/sqlite", "bus/transports")
PAGELESS = {
    *("single_sign_on.py", "oidc.py", "provider.py", "mapping.py", "exports.py", "partitions.py"),
    *("partition.py", "dropping.py", "quarantine.py", "event_sink.py"),
}
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
        for module, argument in arguments("localized", "N_")
        if not (is_from_a_table(argument) or isinstance(argument, ast.Constant))
    ]
    assert odd == ["reasons.py: text"], "that one is from REASONS"


def test_no_text_is_chosen_or_put_together_where_it_is_said() -> None:
    odd = [
        f"{module}: {ast.unparse(argument)}"
        for module, argument in arguments("t", "localized", "N_")
        if isinstance(argument, ast.JoinedStr | ast.BinOp)
        or (isinstance(argument, ast.IfExp) and {type(argument.body), type(argument.orelse)} & {ast.Constant})
    ]
    assert odd == []


def test_sentences_of_the_bus_are_found() -> None:
    modules = {module.rpartition("/")[2] for module in IN_CODE.values()}
    assert {"alarms.py", "hops.py", "reasons.py", "principals.py"} <= modules
    assert "attempt {n}, stuck until the compensator handed it over" in IN_CODE
    assert "no receiver is alive: new messages are refused; producers keep theirs in their spools" in IN_CODE


def test_what_pages_show_of_an_error_is_a_sentence() -> None:
    english = [
        f"{module}: {ast.unparse(part)}"
        for module, call in refusals()
        for part in (*call.args[:1], *(one.value for one in call.keywords if one.arg == "hint"))
        if is_english(part)
    ]
    assert english == []


def refusals() -> Iterator[tuple[str, ast.Call]]:
    """Yield what makes an error of the bus where pages ask: but for logging in elsewhere, and what has no page."""
    kinds = {name for name, kind in vars(bus.errors).items() if isinstance(kind, type)} - {"ConfigurationError"}
    for folder in SHOWN:
        for path in sorted((texts.ROOT / folder).rglob("*.py")):
            if path.name not in PAGELESS:
                yield from ((path.name, call) for call in texts.calls(ast.parse(path.read_text("utf-8")), kinds))


def is_english(node: ast.expr) -> bool:
    """Whether it is said in English alone; a command is the same in every language."""
    if isinstance(node, ast.Constant):
        return not str(node.value).startswith("bus ")
    return isinstance(node, ast.JoinedStr) and not ast.unparse(node).startswith("f'bus ")


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


@pytest.mark.parametrize("kind", _VALUES)
def test_what_is_wrong_with_a_value_is_said_in_the_words_of_the_bus(kind: str) -> None:
    assert kind in get_args(ErrorType)
    found = _why({"type": kind, "msg": "", "ctx": dict.fromkeys(fields(_VALUES[kind]), 7)})
    assert isinstance(found, LocalizedText)
    assert ("7" in str(found)) == bool(fields(_VALUES[kind]))


def test_a_limit_is_said_as_people_write_it() -> None:
    assert str(_why({"type": "greater_than", "msg": "", "ctx": {"gt": 0.0}})) == "expected more than 0"
    assert str(_why({"type": "less_than_equal", "msg": "", "ctx": {"le": 0.25}})) == "expected 0.25 or less"


def test_values_are_filled_in_and_a_text_without_values_stays_as_it_is() -> None:
    assert words_of("en")("Find “{text}”", text="{x}") == "Find “{x}”"
    assert words_of("zh")("Find “{text}”", text="a") == "查找“a”"
    assert words_of("zh")("100 {%}") == "100 {%}"
