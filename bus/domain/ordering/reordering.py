"""Resends to a strictly ordered destination, which are out of order: only on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bus.domain.destination import Destination, Ordering
from bus.errors import InvalidMessage
from bus.localized_text import listed, localized

_MOST_NAMED: Final = 3


def check_reorder(destinations: Mapping[str, Destination], code: str | None, *, reorder: bool) -> None:
    """Raise ``InvalidMessage`` when messages would be sent again out of a strict order without permission.

    Parameters
    ----------
    destinations
        All that are configured, by code.
    code
        Destination whose messages are sent again; None for any.
    reorder
        Whether the caller allows them to come out of order.
    """
    strict = [
        found.code
        for found in destinations.values()
        if found.ordering is Ordering.STRICT and code in (None, found.code)
    ]
    if strict and not reorder:
        raise InvalidMessage(
            localized(
                "what is sent again comes behind all younger messages, and a strict order is kept by {names}",
                names=listed(sorted(strict), _MOST_NAMED),
            ),
            hint=localized(
                "resume what holds the order up: bus ordering resume; reorder, or --reorder, sends others out of order"
            ),
            field="reorder",
        )
