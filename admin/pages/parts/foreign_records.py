"""Untrusted texts: characters that are invisible, or change the direction of a line, are made visible."""

from __future__ import annotations

import re
from typing import Final

_PICTURES: Final = 0x2400
_DELETE: Final = 0x7F
_DELETE_PICTURE: Final = "\u2421"
# Controls, marks of direction, invisible separators, a byte order mark and lone surrogates.
_HIDDEN: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ud800-\\udfff]"
)


def visible(text: str) -> str:
    """Return a text in which every character shows; lines and tabs stay."""
    return _HIDDEN.sub(_picture, text.replace("\r\n", "\n"))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:  # noqa: PLR2004 - Unicode has a picture of each of these
        return chr(_PICTURES + code)
    return _DELETE_PICTURE if code == _DELETE else f"⟨U+{code:04X}⟩"


def hex_lines(content: bytes) -> str:
    """Return bytes as a hex dump: offset, hexadecimal, and ASCII where printable."""
    lines = []
    for offset in range(0, len(content), 16):
        row = content[offset : offset + 16]
        shown = "".join(chr(byte) if 0x20 <= byte < _DELETE else "." for byte in row)  # noqa: PLR2004 - what ASCII shows
        lines.append(f"{offset:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines)
