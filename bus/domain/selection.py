"""What a search or a bulk resend asks for."""

from __future__ import annotations

import msgspec

from bus.domain.delivery import Status


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that meet every condition given; times in milliseconds since the epoch, ``before`` exclusive.

    With a subscription, ``status`` is that delivery's; without, the message's. With a ``signature`` one delivery (that
    subscription's, if there is one) fails in this way, and ``status`` is its own. ``text`` matches inside the id, the
    biz id and the source.
    """

    destination: str | None = None
    subscription: str | None = None
    status: Status | None = None
    biz_id: str | None = None
    source: str | None = None
    since: int | None = None
    before: int | None = None
    text: str | None = None
    signature: str | None = None
