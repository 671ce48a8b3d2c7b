"""A check that a topic keeps its destination's order, with the reason if not; rules without I/O."""

from __future__ import annotations

from typing import Final

from bus.localized_text import AnyText, localized
from bus.transports.nsq.errors import ORDER_IS_MUST, ErrorFrame, NsqFault
from bus.transports.nsq.partitions.layout import Layout

NO_ORDER: Final = localized("NSQ keeps the order of keys only in partitions, and no nsqlookupd here tells of any")
NO_ORDER_HINT: Final = localized("use a cluster of Youzan's fork, another transport, or no ordering")


def disagreement(layout: Layout, *, keeps_order: bool) -> AnyText:
    """Return what is wrong when a topic and its destination differ in their order; empty text when they do not.

    Messages are consumed in order as soon as one of both wants it.
    """
    if not layout.count or layout.is_ordered is keeps_order:
        return ""
    if keeps_order:
        return localized(
            "the destination keeps the order of keys, and its topic was made without: whoever else consumes the topic "
            "may do so out of order; make it anew as an ordered one"
        )
    return localized(
        "the topic demands ordered consumers, and its destination keeps no order: each partition has one message at a "
        "time under way; set the destination's ordering to key"
    )


def explained(fault: NsqFault) -> AnyText:
    """Return why nsqd refuses subscriptions, with what to do where nsqd's own text does not say it."""
    if isinstance(fault, ErrorFrame) and fault.code == ORDER_IS_MUST:
        return localized(
            "{error}: the topic demands ordered consumers, and no nsqlookupd has told so yet; "
            "it is looked up, or set the destination's ordering to key",
            error=str(fault),
        )
    return str(fault)
