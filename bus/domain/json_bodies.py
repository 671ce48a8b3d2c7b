"""Bodies that are JSON, in each encoding that JSON had."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

_parse: Final = msgspec.json.Decoder().decode
_skim: Final = msgspec.json.Decoder(msgspec.Raw).decode


def is_json(content_type: str) -> bool:
    """Whether a body of this content type says that it is JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def is_well_formed(body: bytes) -> bool:
    """Whether a body is a JSON value; what is inside its strings is not checked if it is UTF-8, for speed."""
    try:
        _skim(body)
    except (msgspec.DecodeError, RecursionError):
        try:
            read_json(body)
        except ValueError:
            return False
    return True


def read_json(body: bytes) -> Any:
    """Return the value of a body: UTF-8, also behind a byte order mark, or UTF-16 or UTF-32 (RFC 4627, section 3).

    Raises
    ------
    ValueError
        It is no JSON, or nested too deeply.
    """
    try:
        try:
            return _parse(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if (encoding := json.detect_encoding(body)) == "utf-8":
                raise
            return _parse(body.decode(encoding))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from error
