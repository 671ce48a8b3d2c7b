"""Sentences of the bus that can be said in another language: a constant template, and values that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Sentence(msgspec.Struct, frozen=True):
    """An English sentence; ``str()`` fills the values in.

    Attributes
    ----------
    template
        Of constants only, with the names of values in braces: whoever translates looks it up.
    values
        By name; one may be a sentence itself. One that is called ``time`` is a time as the API writes it.
    """

    template: str
    values: Mapping[str, str | int | Sentence] = {}

    def __str__(self) -> str:
        """Return it in English."""
        return self.template.format(**self.values) if self.values else self.template


Said = str | Sentence
"""What is told: a sentence of the bus, or words of others, which stay as they are in any language."""


def sentence(template: str, /, **values: int | Said) -> Sentence:
    """Return a sentence."""
    return Sentence(template, values)


def N_(template: str) -> str:  # noqa: N802 - what gettext calls it
    """Return a text as it is: it marks, where texts stand in a table, those that are said in another language."""
    return template
