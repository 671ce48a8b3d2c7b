"""Sentences of the bus that can be said in another language: a constant template, and values that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

_MOST_JOINED: Final = 10


class LocalizedText(msgspec.Struct, frozen=True):
    """An English sentence; ``str()`` fills the values in.

    Attributes
    ----------
    template
        Of constants only, with the names of values in braces: whoever translates looks it up.
    values
        By name; one may be a sentence itself. One that is called ``time`` is a time as the API writes it.
    """

    template: str
    values: Mapping[str, str | int | LocalizedText] = {}

    def __str__(self) -> str:
        """Return it in English."""
        return self.template.format(**self.values) if self.values else self.template


AnyText = str | LocalizedText
"""What is told: a sentence of the bus, or words of others, which stay as they are in any language."""


def localized(template: str, /, **values: int | AnyText) -> LocalizedText:
    """Return a sentence."""
    return LocalizedText(template, values)


def localized_text_of(said: AnyText) -> LocalizedText | None:
    """Return the sentence, which can be translated; None for words that are not the bus's own."""
    return said if isinstance(said, LocalizedText) else None


def joined(parts: Iterable[AnyText]) -> AnyText:
    """Return several as one, with semicolons between: some, and how many more there are; an empty text for none."""
    found = list(parts)
    whole: AnyText = ""
    for part in found[:_MOST_JOINED]:  # each is inside the next
        whole = localized("{first}; {second}", first=whole, second=part) if whole else part
    left = len(found) - _MOST_JOINED
    return localized("{names} and {count} more", names=whole, count=left) if left > 0 else whole


def listed(names: Sequence[str], most: int) -> AnyText:
    """Return the first names, ``most`` of them, and how many more there are."""
    first = ", ".join(names[:most])
    return localized("{names} and {count} more", names=first, count=len(names) - most) if len(names) > most else first


def text_of_error(error: Exception) -> AnyText:
    """Return what an error was made with: the sentence of ``ValueError(sentence("..."))``, or else its text."""
    first = error.args[0] if error.args else ""
    return first if isinstance(first, LocalizedText) else str(error)


def N_(template: str) -> str:  # noqa: N802 - what gettext calls it
    """Return a text as it is; marks a text in a table or constant as one that is translated."""
    return template
