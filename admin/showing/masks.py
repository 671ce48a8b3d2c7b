"""Masking of messages for one reader, by the rules of their destination: every view of content uses this."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from bus.domain.catalog import Catalog
from bus.domain.message import Message
from bus.domain.searching.masking import MaskRules, Unmaskable, masking
from bus.domain.searching.selection import Selection
from bus.domain.tracing.trace import DeliveryTrace, Trace
from bus.errors import AccessDenied
from bus.localized_text import AnyText, localized, text_of_error
from bus.security.keys import Action
from bus.security.principals import Principal

_NOTHING: Final = MaskRules()
_AT_ONCE: Final = 65_536  # bytes of a body that is masked on the event loop; larger ones in a thread
_HINT: Final = localized("an admin sees it with ?unmasked=true, which the audit log notes")


class VisibleBody(NamedTuple):
    """A body as a reader may see it; None when it is withheld, with ``why``. ``masked``: parts may be hidden."""

    body: bytes | None
    masked: bool = False
    why: AnyText = ""


class Masks:
    """Applies the rules to what one principal reads.

    Parameters
    ----------
    unmasked
        Whether the reader asks to see everything; the request is then in the audit log (`AuditedRoute`).

    Raises
    ------
    AccessDenied
        The reader asks to see everything, and may not.
    """

    def __init__(self, catalog: Catalog, principal: Principal, *, unmasked: bool = False) -> None:
        if unmasked:
            principal.require_somewhere(Action.UNMASK)
        self._catalog = catalog
        self._principal = principal
        self.unmasked = unmasked

    def of(self, destination: str) -> MaskRules:
        """Return the rules that hold for this reader; false when there are none."""
        if self.unmasked and self._principal.may(Action.UNMASK, destination):
            return _NOTHING
        return _rules(self._catalog, destination)

    async def body(self, message: Message) -> VisibleBody:
        """Return a message's body as this reader sees it."""
        rules = self.of(message.destination)
        if not rules.body:
            return VisibleBody(message.body)
        try:
            if len(message.body) <= _AT_ONCE:
                return VisibleBody(rules.mask_body(message.body), masked=True)
            return VisibleBody(await asyncio.to_thread(rules.mask_body, message.body), masked=True)
        except Unmaskable as error:
            return VisibleBody(None, masked=True, why=text_of_error(error))

    def headers(self, destination: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return a message's own headers as this reader sees them."""
        return self.of(destination).mask_headers(headers)

    def trace(self, trace: Trace) -> Trace:
        """Return a trace as this reader may see it, without subscribers' answers, which may quote the message."""
        rules = self.of(trace.destination)
        if not rules:
            return trace
        deliveries = {name: _without_answers(delivery) for name, delivery in trace.deliveries.items()}
        message = trace.message
        if message is not None:
            message = msgspec.structs.replace(message, headers=rules.mask_headers(message.headers))
        return msgspec.structs.replace(trace, message=message, deliveries=deliveries)

    def require_whole(self, destination: str) -> None:
        """Raise ``AccessDenied`` unless this reader may see everything: required to forward what was read."""
        if self.of(destination):
            raise AccessDenied(
                localized(
                    "messages of {destination} are masked for {name}",
                    destination=repr(destination),
                    name=self._principal.name,
                ),
                hint=_HINT,
            )

    def require_unprobed(self, selection: Selection) -> None:
        """Refuse a selection by which hidden values could be guessed.

        Raises
        ------
        AccessDenied
            403: a condition looks into bodies or headers, and there are masking rules that hold for this reader.
        """
        destination = selection.destination
        reads_content = selection.reads_bodies or selection.header is not None
        asked = [destination] if destination is not None else sorted(self._catalog.destinations)
        hidden = next((code for code in asked if self.of(code)), None)
        if reads_content and hidden is not None:
            raise AccessDenied(
                localized(
                    "{name} may not search in bodies and headers of {destinations}, which has masking rules",
                    name=self._principal.name,
                    destinations=repr(hidden),
                ),
                hint=localized(
                    "name a destination without such rules, or leave that condition out; {hint}", hint=_HINT
                ),
            )


def withheld(seen: VisibleBody) -> AccessDenied:
    """Return the refusal of a body that is withheld."""
    return AccessDenied(seen.why, hint=_HINT)


def _rules(catalog: Catalog, destination: str) -> MaskRules:
    found = catalog.destinations.get(destination)
    return masking(found.mask) if found is not None and found.mask else _NOTHING


def _without_answers(delivery: DeliveryTrace) -> DeliveryTrace:
    attempts = {name: msgspec.structs.replace(one, response=b"") for name, one in delivery.attempts.items()}
    return msgspec.structs.replace(delivery, attempts=attempts)
