"""The destination that a producer names, or why it cannot be that."""

from __future__ import annotations

from bus.domain.destination import Destination
from bus.domain.message import check_destination
from bus.errors import InvalidDestination, InvalidMessage, StoreUnavailable
from bus.localized_text import localized
from bus.registry import Registry


def find_destination(registry: Registry, code: str) -> Destination:
    """Return a destination.

    Raises
    ------
    InvalidDestination
        There is none of this code, or it is no code.
    StoreUnavailable
        Whether there is one cannot be said while the store is unreachable.
    """
    destination = registry.catalog.destinations.get(code)
    if destination is not None:
        return destination
    check_destination(code)
    if registry.is_old:
        raise StoreUnavailable(
            f"destination {code!r} is not in the configuration kept on disk, and the store is unavailable",
            hint="send it again: it is looked up when the store is available",
        )
    raise InvalidDestination(
        f"there is no destination {code!r}",
        hint=f"make it with: bus destination set {code}",
        field="destination",
    )


def no_producers(destination: Destination) -> InvalidMessage:
    """Return the refusal of a producer that would send alone where no strict order is kept."""
    return InvalidMessage(
        localized(
            "destination {code} keeps no strict order, so no producer sends to it alone", code=repr(destination.code)
        ),
        hint=localized("send plain messages to it, or give it ordering = strict"),
        field="producer",
    )
