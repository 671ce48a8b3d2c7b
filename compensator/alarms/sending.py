"""Telling a channel, by Apprise: none of what the bus itself delivers with."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel
from bus.errors import ConfigurationError
from bus.extras import extra
from bus.sentences import Said, sentence
from compensator.alarms.texts import Text

WITHIN: Final = 30.0
"""Seconds that a channel has to take what it is told."""
_KINDS: Final = {Severity.CRITICAL: "failure", Severity.WARNING: "warning", Severity.INFO: "info", None: "success"}


def _target(channel: Channel) -> Any:
    with extra("alarms"):
        import apprise  # noqa: PLC0415 - of an extra, and slow to import
    # Its errors have URLs with secrets, and each notice is logged here already.
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    target = apprise.Apprise()
    if not target.add(channel.url):
        raise ConfigurationError(
            sentence("the URL of alarm_channels.{name} is none that Apprise knows", name=channel.name),
            hint=sentence("see docs/alarms.md for examples: slack://, mailto://, json://, ..."),
        )
    return target


class Sending(Protocol):
    """Tells channels."""

    async def tell(self, channel: Channel, text: Text, severity: Severity | None) -> Said:
        """Return why a channel has not taken what it was told; empty once it has. ``severity`` None is good news."""
        ...


class AppriseSending:
    """Tells channels by Apprise.

    Raises
    ------
    ConfigurationError
        Apprise is not installed, or does not know the kind of a channel's URL.
    """

    def __init__(self, channels: list[Channel]) -> None:
        self._targets = {channel.name: _target(channel) for channel in channels}

    async def tell(self, channel: Channel, text: Text, severity: Severity | None) -> Said:
        """Tell one; what it does not say itself is told as not taken."""
        try:
            async with asyncio.timeout(WITHIN):
                taken = await self._targets[channel.name].async_notify(
                    body=text.body, title=text.title, body_format="text", notify_type=_KINDS[severity]
                )
        except TimeoutError:
            return sentence("it did not answer within {seconds} s", seconds=f"{WITHIN:g}")
        except Exception as error:  # noqa: BLE001 - a plugin of a library, whose errors are its own
            return sentence("it failed: {error}", error=f"{type(error).__name__}: {error}")
        return "" if taken else sentence("its service did not take it")
