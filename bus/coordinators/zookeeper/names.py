"""Paths of documents in ZooKeeper: ``ROOT/=COLLECTION/=KEY``, each name percent-encoded.

A znode may not be called ``.`` or ``..``, nor have a slash or a control character in its name; behind the equals sign
any text is a name. What has none is not the bus's.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

_MARK: Final = "="


def node_of(text: str) -> str:
    """Return the name of the znode for a collection or a key; the same text gives the same name for ever.

    Raises
    ------
    UnicodeError
        The text has half of a surrogate pair.
    """
    return _MARK + quote(text, safe="")


def text_of(node: str) -> str | None:
    """Return the text that gave a znode its name, None for a name that ``node_of`` does not give."""
    text = unquote(node[len(_MARK) :])
    return text if node_of(text) == node else None
