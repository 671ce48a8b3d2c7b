"""A destination: the code that producers send to, and how its messages travel."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from bus.domain.delivery.quota import DEFAULT_SHARE
from bus.domain.message import DEFAULT_MAX_BYTES
from bus.domain.times import DAY
from bus.errors import Conflict
from bus.localized_text import localized

FORMER_KEPT: Final = DAY


class TransportName(enum.StrEnum):
    """The transports that a destination can take."""

    DIRECT = "direct"
    KAFKA = "kafka"
    RABBITMQ = "rabbitmq"
    NSQ = "nsq"


class Ordering(enum.StrEnum):
    """Which messages reach each subscriber one after another, in the order in which they were sent."""

    NONE = "none"
    KEY = "key"
    STRICT = "strict"

    def key_of(self, key: str) -> str | None:
        """Return the key by which a message with this one is kept in order: one for all when it is strict, or None."""
        if self is Ordering.STRICT:
            return ""
        return key if self is Ordering.KEY and key else None


def strict_carrier(transport: str) -> str:
    """Return the name of a transport's groups of brokers, which carry its strictly ordered destinations."""
    return f"{transport}-groups"


class FormerTransport(msgspec.Struct, frozen=True):
    """A transport that a destination has left; consumed until it is empty, and at least until ``until``."""

    transport: TransportName
    until: int

    @property
    def left_at(self) -> int:
        """Time at which the destination left it, in milliseconds since the epoch."""
        return self.until - FORMER_KEPT


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one destination.

    Attributes
    ----------
    ordering
        Which of its messages are delivered in order.
    retention_days
        How long messages are kept after they were received.
    store_rate
        Store writes a second for this destination, None for no limit of its own.
    spool_share
        Share of each local queue that its messages may fill, so that other destinations are not refused.
    rate, burst
        Messages a second that each receiver accepts, None for no limit, and at once, None for one second's worth.
    max_bytes
        The largest body accepted.
    paused
        Messages are accepted and held.
    former
        Transports that it has left and that are still consumed.
    traced
        Its messages are published with their trace ids, and each receipt shows where they were, on brokers that can.
    owner
        Recipient of its alarms and those of its subscriptions, one of the channels' ``owners``.
    pv_min, pv_max
        Messages in ten minutes; fewer, or more, are an alarm. None for no limit.
    refuse_unchecked_keys
        A message whose idempotency key cannot be checked is refused; else it is accepted.
    mask
        Which parts of its messages are masked for those who may not see everything (`bus.domain.searching.masking`).
    """

    code: str
    transport: TransportName = TransportName.DIRECT
    cluster: str | None = None
    ordering: Ordering = Ordering.NONE
    retention_days: int = 30
    store_rate: float | None = None
    spool_share: float = DEFAULT_SHARE
    rate: float | None = None
    burst: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    paused: bool = False
    traced: bool = False
    former: tuple[FormerTransport, ...] = ()
    owner: str = ""
    pv_min: int | None = None
    pv_max: int | None = None
    refuse_unchecked_keys: bool = False
    mask: tuple[str, ...] = ()
    version: int = 0

    @property
    def carrier(self) -> str:
        """Target of its messages: its transport, or that one's groups of brokers for a strict order."""
        return strict_carrier(self.transport) if self.ordering is Ordering.STRICT else self.transport

    @property
    def is_direct(self) -> bool:
        """Whether its messages are on the direct transport alone."""
        return self.transport is TransportName.DIRECT and not self.former and self.ordering is not Ordering.STRICT

    @property
    def transports(self) -> tuple[str, ...]:
        """Every transport on which its messages may be: the one in use first, then those left, then the fallback."""
        if self.ordering is Ordering.STRICT:
            return (self.carrier,)
        names: tuple[str, ...] = (self.transport, *(left.transport for left in self.former), TransportName.DIRECT)
        return tuple(dict.fromkeys(names))


def switched(known: Destination | None, wanted: Destination, now: int) -> Destination:
    """Return the wanted destination with the transports that it has left, by this change or before.

    A receiver that has not yet received the change uses the old transport, so that one stays attached for a day.
    """
    if known is None:
        return wanted
    former = {left.transport: left for left in known.former}
    if known.transport is not wanted.transport:
        former[known.transport] = FormerTransport(known.transport, now + FORMER_KEPT)
    former.pop(wanted.transport, None)
    return msgspec.structs.replace(wanted, former=tuple(former.values()))


def check_removable(destination: Destination, subscriptions: Collection[object]) -> None:
    """Raise ``Conflict`` while a destination has subscriptions, or masking rules, without which bodies would show."""
    code = destination.code
    if subscriptions:
        raise Conflict(
            localized("{code} still has subscriptions", code=repr(code)),
            hint=localized("remove them first: bus subscription rm"),
        )
    if destination.mask:
        raise Conflict(
            localized(
                "{code} has masking rules, and its messages stay readable until their retention; nothing was removed",
                code=repr(code),
            ),
            hint=localized("take the rules away first if that may be seen: bus destination set CODE --no-mask"),
        )


def is_drained(waiting: Iterable[int | None]) -> bool | None:
    """Whether a transport holds nothing for all subscriptions; None when that is not known, though none is seen."""
    found = list(waiting)
    if any(found):
        return False
    return None if None in found else True
