"""What the bus tells in words, as the API has it: in English, and as what another language needs."""

from __future__ import annotations

from bus.sentences import Said, Sentence


def text_of(said: Said) -> Sentence | None:
    """Return the sentence, which another language needs; None where the words are none of the bus."""
    return said if isinstance(said, Sentence) else None
