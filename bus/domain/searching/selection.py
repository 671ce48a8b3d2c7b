"""The conditions of a search or a bulk resend."""

from __future__ import annotations

import msgspec

from bus.domain.delivery.delivery import SEVERITY, TRIED, UNDELIVERED, Status
from bus.domain.searching.conditions import StatusClass
from bus.domain.tracing.signature import FAILING


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that meet every condition given; times in milliseconds since the epoch, ``before`` exclusive.

    With a subscription, ``status`` is that delivery's; without, the message's. With a ``signature``, a
    ``status_class``, an ``error`` or ``undelivered`` there is one delivery (that subscription's, if one is named) that
    meets all of these, and ``status`` is its own. ``bus.domain.tracing.trace.matches`` is the rule.

    Attributes
    ----------
    text
        Inside the id, the biz id or the source.
    ref
        The message's id, the id that it had first, the trace id of its ``traceparent``, its trace id on a broker
        (``bus.domain.identity.trace_number``, in decimal), its biz id or its key, whole.
    status_class
        How the last attempt ended (``bus.domain.tracing.trace.status_class_of``).
    error
        Inside the reason or the error of the last attempt of a delivery that is not delivered, in any case.
    undelivered
        A delivery that may still be delivered: it continues, or waits for a person.
    header
        ``NAME`` or ``NAME: VALUE`` of the message's own headers; the name in any case.
    body_path, body_value
        A path that the JSON body has, such as ``order.lines[0].sku``, and the value there: a text itself, anything else
        that is no object or array by its JSON text.
    body_text
        Inside the body.
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
    ref: str | None = None
    status_class: StatusClass | None = None
    error: str | None = None
    undelivered: bool = False
    header: str | None = None
    body_path: str | None = None
    body_value: str | None = None
    body_text: str | None = None

    @property
    def reads_bodies(self) -> bool:
        """Whether a condition is about the content of bodies: they have to be read, and matches disclose some of it."""
        return self.body_path is not None or bool(self.body_text)

    @property
    def asks_how_it_went(self) -> bool:
        """Whether a condition is about how some delivery went, so that ``status`` is that delivery's."""
        is_given = self.signature is not None or self.status_class is not None or self.error is not None
        return is_given or self.undelivered

    @property
    def delivery_states(self) -> frozenset[Status]:
        """The states of a delivery that can meet the conditions about one delivery."""
        states = frozenset(Status) if self.status is None else frozenset({self.status})
        if self.undelivered:
            states &= UNDELIVERED
        if self.signature is not None:
            states &= FAILING
        if self.error is not None:
            states &= TRIED
        if self.status_class is not None:
            states &= TRIED | {Status.DELIVERED} if self.status_class is StatusClass.SUCCESS else TRIED
        return states

    @property
    def message_states(self) -> frozenset[Status]:
        """The states, as the worst of its deliveries' states, of a message that can meet the selection."""
        if self.subscription is None and not self.asks_how_it_went:
            return self.delivery_states
        mildest = min((SEVERITY[state] for state in self.delivery_states), default=len(SEVERITY) + 1)
        return frozenset(state for state in Status if SEVERITY[state] >= mildest)
