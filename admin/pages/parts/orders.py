"""The texts about an order: how it is kept, and the effect of a message that is given up."""

from __future__ import annotations

from typing import Final

from bus.domain.destination import Ordering
from bus.domain.subscription import OnFailure
from bus.localized_text import N_

ORDERINGS: Final = {
    Ordering.NONE: N_("none: messages go side by side"),
    Ordering.KEY: N_("messages of a key one after another"),
    Ordering.STRICT: N_("all messages one after another, on groups of brokers"),
}
ON_FAILURE: Final = {
    OnFailure.BLOCK: N_("its key waits until a person decides"),
    OnFailure.PARK: N_("it is parked, and its key goes on"),
    OnFailure.SKIP: N_("it is dead, and its key goes on"),
}
