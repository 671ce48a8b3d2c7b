"""What the bus tells in words, as the API has it: in English, and as what another language needs."""

from __future__ import annotations

from typing import Any

import msgspec

from bus.sentences import Said, Sentence


def text_of(said: Said) -> Sentence | None:
    """Return the sentence, which another language needs; None where the words are none of the bus."""
    return said if isinstance(said, Sentence) else None


def told(name: str, said: Said) -> dict[str, Any]:
    """Return English words under ``name``, and under ``name_text`` their template and values.

    ``name_text`` is null where the words are none of the bus. A value may have a template and values itself.
    """
    return {name: str(said), f"{name}_text": msgspec.to_builtins(text_of(said))}
