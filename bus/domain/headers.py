"""Names and values that a message's own headers, or a subscription's constant ones, may have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from bus.localized_text import localized

FALLBACK: Final = "bus-fallback"
"""Header of a batch that is sent directly over the network, since its producer's disk refused the messages."""
EXTENDED: Final = "UTF-8''"
MOST: Final = 64
LONGEST_VALUE: Final = 8_192  # bytes in UTF-8

# RFC 9110 section 5.6.2 (token) and 5.5 (field value without controls); a lone surrogate cannot be sent.
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_BAD_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_RESERVED: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_RESERVED_PREFIXES: Final = ("bus-", "webhook-", "proxy-")


def wire_value(value: str) -> str:
    """Return a header's value as it is sent: ASCII as it is, any other as an ``ext-value`` of RFC 8187, section 3.2.1.

    ``UTF-8''`` and the bytes of UTF-8, percent-encoded: what a server of any language reads, and can decode. A value
    that itself begins so is encoded too, so that each has one meaning.
    """
    if value.isascii() and not value.startswith(EXTENDED):
        return value
    return EXTENDED + quote(value, safe="!#$&+^`|")


def is_header_name(name: str) -> bool:
    """Whether a text can be a header's name."""
    return _NAME.fullmatch(name) is not None


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise ``ValueError`` unless they can be sent to a subscriber as they are: 64 at most, each name once."""
    if len(headers) > MOST:
        raise ValueError(
            localized("there are {count} headers; at most {most} are delivered", count=len(headers), most=MOST)
        )
    seen: set[str] = set()
    for name, value in headers.items():
        check_header(name, value)
        if name.lower() in seen:
            raise ValueError(
                localized("header {name} is there twice, for upper and lower case are the same", name=repr(name))
            )
        seen.add(name.lower())


def own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a message's own headers as they are kept; raises as ``check_headers`` does.

    Names are in lower case, in which they come by HTTP, and values without white space around them, which is no part
    of them (RFC 9110, sections 5.1 and 5.5).
    """
    check_headers(headers)
    return {name.lower(): value.strip(" \t") for name, value in headers.items()}


def check_header(name: str, value: str) -> None:
    """Raise ``ValueError`` unless the pair can be sent to a subscriber as it is."""
    if not is_header_name(name):
        raise ValueError(localized("{name} is not a header name", name=repr(name)))
    lower = name.lower()
    if lower in _RESERVED or lower.startswith(_RESERVED_PREFIXES):
        raise ValueError(localized("header {name} is set by the bus itself", name=repr(name)))
    if _BAD_VALUE.search(value):
        raise ValueError(
            localized("header {name} has a control character or half a character in its value", name=repr(name))
        )
    if len(value) > LONGEST_VALUE or len(value.encode()) > LONGEST_VALUE:
        raise ValueError(
            localized(
                "the value of header {name} is longer than {longest} bytes", name=repr(name), longest=LONGEST_VALUE
            )
        )
