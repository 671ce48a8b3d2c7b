"""Sends notifications to channels by Apprise in a process of its own: independent of the bus's own delivery."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from typing import Final, Protocol

import msgspec

from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel
from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.extras import extra
from bus.localized_text import AnyText, localized
from compensator.alarms.notifying import NOT_ACCEPTED, Notification
from compensator.alarms.texts import Text

WITHIN: Final = 30.0
"""Seconds that a channel has to take a notification."""
_COMMAND: Final = (sys.executable, "-P", "-m", Notification.__module__)
_KINDS: Final = {Severity.CRITICAL: "failure", Severity.WARNING: "warning", Severity.INFO: "info", None: "success"}


class ChannelNotifier(Protocol):
    """Sends notifications to channels."""

    async def tell(self, channel: Channel, text: Text, severity: Severity | None) -> AnyText:
        """Return why a channel has not taken a notification; empty once it has. ``severity`` None is good news."""
        ...


class AppriseSending:
    """Sends notifications by Apprise, each in a process that has little memory and ends within ``WITHIN`` seconds.

    Raises
    ------
    ConfigurationError
        Apprise is not installed, or does not support the kind of a channel's URL.
    """

    def __init__(self, channels: list[Channel]) -> None:
        if not channels:
            return
        with extra("alarms"):
            if importlib.util.find_spec("apprise") is None:
                raise ModuleNotFoundError(name="apprise")
        asked = msgspec.json.encode([channel.url for channel in channels])
        try:
            said = subprocess.run(  # noqa: S603 - this interpreter
                [*_COMMAND, "check"], input=asked, capture_output=True, timeout=WITHIN, check=True
            ).stdout.decode()
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigurationError(f"Apprise does not start: {error}") from error
        if said.isdigit():
            raise ConfigurationError(
                localized(
                    "the URL of alarm_channels.{name} is not supported by Apprise", name=channels[int(said)].name
                ),
                hint=localized("see docs/alarms.md for examples: slack://, mailto://, json://, ..."),
            )
        if said:
            raise ConfigurationError(f"Apprise does not start: {said}")

    async def tell(self, channel: Channel, text: Text, severity: Severity | None) -> AnyText:
        """Send one notification; without an answer of Apprise it counts as not taken."""
        notification = msgspec.json.encode(Notification(channel.url, text.title, text.body, _KINDS[severity]))
        try:
            process = await asyncio.create_subprocess_exec(
                *_COMMAND, "notify", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:  # no descriptor or memory for it
            return localized("it failed: {error}", error=error_text(error))
        try:
            async with asyncio.timeout(WITHIN):
                said = (await process.communicate(notification))[0].decode("utf-8", "replace")
        except TimeoutError:
            return localized("it did not answer within {seconds} s", seconds=f"{WITHIN:g}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            return localized("it failed: {error}", error=f"its process ended with {process.returncode}")
        if said == NOT_ACCEPTED:
            return localized("its service did not take it")
        return localized("it failed: {error}", error=said) if said else ""
