"""Sentences of the bus that can be said in another language: a constant template, and values that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

_MOST_JOINED: Final = 10


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


def sentence_of(said: Said) -> Sentence | None:
    """Return the sentence, which can be translated; None for words that are not the bus's own."""
    return said if isinstance(said, Sentence) else None


def joined(parts: Iterable[Said]) -> Said:
    """Return several as one, with semicolons between: some, and how many more there are; an empty text for none."""
    found = list(parts)
    whole: Said = ""
    for part in found[:_MOST_JOINED]:  # each is inside the next
        whole = sentence("{first}; {second}", first=whole, second=part) if whole else part
    left = len(found) - _MOST_JOINED
    return sentence("{names} and {count} more", names=whole, count=left) if left > 0 else whole


def listed(names: Sequence[str], most: int) -> Said:
    """Return the first names, ``most`` of them, and how many more there are."""
    first = ", ".join(names[:most])
    return sentence("{names} and {count} more", names=first, count=len(names) - most) if len(names) > most else first


def said_by(error: Exception) -> Said:
    """Return what an error was made with: the sentence of ``ValueError(sentence("..."))``, or else its text."""
    first = error.args[0] if error.args else ""
    return first if isinstance(first, Sentence) else str(error)


def N_(template: str) -> str:  # noqa: N802 - what gettext calls it
    """Return a text as it is; marks a text in a table or constant as one that is translated."""
    return template
