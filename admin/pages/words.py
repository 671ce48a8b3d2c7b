"""What pages say, in English and Chinese; the English text is the key."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Final

Words = Callable[..., str]
LANGUAGES: Final = {"en": "English", "zh": "中文"}


def words_of(language: str) -> Words:
    """Return what says a text in a language: ``t("{count} messages", count=3)``; English where one is missing."""
    known = chinese() if language == "zh" else {}

    def say(text: str, /, **values: object) -> str:
        found = known.get(text, text)
        return found.format(**values) if values else found

    return say


@cache
def chinese() -> dict[str, str]:
    """Return all texts in Chinese, gathered from ``admin.pages.chinese``: a module for each page."""
    package = importlib.import_module("admin.pages.chinese")
    modules = (
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    )
    return {english: text for module in modules for english, text in module.TEXTS.items()}
