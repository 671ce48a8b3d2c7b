"""Check before a destination stops keeping an order: none of its keys may be held up.

A message that waits for an earlier one of its key is delivered only while the destination keeps an order.
"""

from __future__ import annotations

from typing import Final

from bus.bootstrap import Context
from bus.domain.destination import Destination, Ordering
from bus.errors import InvalidMessage
from bus.localized_text import listed, localized

_MOST_NAMED: Final = 3


async def check_ending(context: Context, known: Destination | None, wanted: Destination) -> None:
    """Raise ``InvalidMessage`` when a destination is to keep no order any more while keys are held up.

    Raises ``StoreError`` as well, while that cannot be known.
    """
    if known is None or known.ordering is Ordering.NONE or wanted.ordering is not Ordering.NONE:
        return
    subscriptions = context.registry.catalog.of(known.code)
    held = [one.name for one in subscriptions if await context.store.ordered_keys(*one.key, limit=1)]
    if held:
        raise InvalidMessage(
            localized(
                "keys of {names} are held up: without an order the messages behind them would not be delivered",
                names=listed(held, _MOST_NAMED),
            ),
            hint=localized(
                "pause the producers, and resume or skip these keys: bus ordering show {code}", code=known.code
            ),
            field="ordering",
        )
