"""What an admin process clears away by itself, now and then."""

from __future__ import annotations

import logging
from typing import Final

from admin.deps import Office
from bus.errors import StoreError

_EVERY: Final = 3600.0
_log = logging.getLogger(__name__)


async def keep_house(services: Office) -> None:
    """Drop what is past its retention, every hour until cancelled; several processes may do it at the same time."""
    context = services.context
    while True:
        try:
            await services.audit.expire(context.settings.audit_retention_days)
            await services.sessions.expire()
        except* StoreError as error:
            _log.warning("what is past its retention is dropped in an hour: %s", error.exceptions[0])
        await context.clock.sleep(_EVERY)
