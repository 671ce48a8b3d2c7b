"""The way to hand a delivery to a dispatcher without a broker: a call in one process, HTTP between processes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from bus.domain.delivery.delivery import Delivery


class LocalDispatcher(Protocol):
    """Takes deliveries that the compensator leased."""

    @property
    def is_local(self) -> bool:
        """Whether what was handed over ends with this process."""
        ...

    async def room(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return how many deliveries each of these (destination, subscription) takes now; 0 for those left out."""
        ...

    async def offer(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Hand deliveries over and return for each whether its lease stays; False when there was no capacity for it.

        A delivery that is taken is POSTed and its outcome recorded; if the process dies before, it is leased again when
        its lease ends. One that is on its way there already, or that a newer recorded outcome has overtaken, is not
        taken again, and its lease stays until the store has that outcome. So does that of one that may have been taken.
        """
        ...
