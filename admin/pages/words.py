"""The texts of pages, in English and in the languages that have a catalogue; the English text is the key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

Words = Callable[..., str]
LANGUAGES: Final = {"en": "English", "zh": "中文"}
_COMMENT: Final = re.compile(r"^#.*\n", re.MULTILINE)


def words_of(language: str) -> Words:
    """Return the function ``t("{count} messages", count=3)``, which gives a text in a language, or else in English."""
    known = catalogue(language)

    def say(text: str, /, **values: object) -> str:
        found = known.get(text, text)
        return found.format(**values) if values else found

    return say


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Return all texts in a language by the English text; none for English, whose texts are in the code."""
    file = resources.files(__package__) / "locale" / language / "LC_MESSAGES" / "pier.po"
    return dict(_entries(file.read_text("utf-8"))) if file.is_file() else {}


def _entries(po: str) -> Iterator[tuple[str, str]]:
    """Yield the translated entries of a gettext catalogue, in the form in which ``make texts`` writes it."""
    for entry in _COMMENT.sub("", po).split("\n\n"):
        english, _, text = entry.strip().removeprefix("msgid ").partition("\nmsgstr ")
        if (key := _unquoted(english)) and (said := _unquoted(text)):
            yield key, said


def _unquoted(lines: str) -> str:
    """Return the text of string literals, a line each; their escapes are JSON's."""
    return "".join(map(json.loads, lines.splitlines()))
