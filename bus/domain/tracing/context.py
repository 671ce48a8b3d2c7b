"""W3C Trace Context: the trace that a message is in, and whether its spans are recorded."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bus.domain.message import Message

SAMPLED: Final = 1
# Version ff is forbidden, and ids of zeros stand for none; what follows the flags is of a version yet to come.
_TRACEPARENT: Final = re.compile(
    r"(?:00|(?!ff)[0-9a-f]{2}(?=-.{52}(?:-|$)))-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_RANDOM_DIGITS: Final = 14
_NUMBERS: Final = 16**_RANDOM_DIGITS
_BEYOND: Final = "g"  # greater than any hexadecimal digit


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A place in a trace.

    Attributes
    ----------
    trace_id, span_id
        32 and 16 hexadecimal digits; the latter empty where nothing is above in the trace.
    flags
        Those of W3C.
    state
        The ``tracestate`` of vendors, passed on as it came.
    """

    trace_id: str
    span_id: str
    flags: int = SAMPLED
    state: str = ""

    @property
    def traceparent(self) -> str:
        """The header that passes it to others."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def parse_context(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """Read a ``traceparent`` with its ``tracestate``; None for one that is to be ignored according to W3C."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or (traceparent.startswith("00") and found[4]):
        return None
    return TraceContext(found[1], found[2], int(found[3], 16), tracestate)


def span_of(message_id: str) -> str:
    """Return the id of the span in which a message was received; it follows from the message's id alone."""
    return message_id[19:23] + message_id[24:]


class Sampler:
    """Selects the messages whose spans are recorded, alike in every process with the same ratio.

    A message with a parent is recorded if its parent is. Any other is the root of a trace, whose id is the message's.

    Parameters
    ----------
    ratio
        Of messages without a parent, from 0 to 1. The greatest of the 56 bits of chance at the end of an id are taken,
        as OpenTelemetry's consistent samplers take them.
    """

    def __init__(self, ratio: float) -> None:
        least = round(_NUMBERS * (1 - ratio))
        # Empty for all of them: nothing has to be looked at then.
        self._least = "" if not least else f"{least:0{_RANDOM_DIGITS}x}" if least < _NUMBERS else _BEYOND

    def parent_of(self, message: Message) -> TraceContext | None:
        """Return the parent context of the message's own spans; None where they are not recorded."""
        if message.traceparent and (parent := parse_context(message.traceparent, message.tracestate)) is not None:
            return parent if parent.flags & SAMPLED else None
        message_id = message.id
        if self._least and message_id[21:23] + message_id[24:] < self._least:
            return None
        return TraceContext(message_id.replace("-", ""), "")
