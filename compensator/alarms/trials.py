"""Test notifications that a person requested: sends each to its channel, and reports whether the channel took it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bus.cluster.alarm_documents import AlarmDocuments, Trial
from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel
from bus.domain.times import HOUR
from bus.errors import StoreError
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.telemetry.outage import Outage
from compensator.alarms.sending import ChannelNotifier
from compensator.alarms.texts import trial

_log = logging.getLogger(__name__)
_TURN: Final = 1.0


class Trials:
    """Sends the requested test notifications, in the process that notifies."""

    def __init__(
        self,
        documents: AlarmDocuments,
        channels: Sequence[Channel],
        sending: ChannelNotifier,
        is_telling: Callable[[], bool],
        clock: Clock,
        pages: str,
    ) -> None:
        self._documents = documents
        self._channels = channels
        self._sending = sending
        self._is_telling = is_telling
        self._clock = clock
        self._pages = pages
        self._outage = Outage(_log, "trials of channels are not done")

    async def run(self) -> None:
        """Send test notifications until cancelled."""
        while True:
            if self._is_telling():
                try:
                    for id_, asked in (await self._documents.trials()).items():
                        await self._do(id_, asked)
                except StoreError as error:
                    self._outage.goes_on(error)
                else:
                    self._outage.is_over()
            await self._clock.sleep(_TURN)

    async def _do(self, id_: str, asked: Trial) -> None:
        if asked.results is None:
            wanted = [one for one in self._channels if asked.channel in ("", one.name)]
            said = await asyncio.gather(*(self._try(one, asked) for one in wanted))
            results = {one.name: error for one, error in zip(wanted, said, strict=True)}
            if asked.channel and not wanted:
                names = ", ".join(one.name for one in self._channels) or "-"
                error = localized("there is no such channel; there are: {names}", names=names)
                results = {asked.channel: error}
            await self._documents.end_trial(id_, msgspec.structs.replace(asked, results=results))
        elif self._clock.now() - asked.at > HOUR:
            await self._documents.end_trial(id_, None)

    async def _try(self, channel: Channel, asked: Trial) -> AnyText:
        return await self._sending.tell(channel, trial(asked.by, self._pages), Severity.INFO)
