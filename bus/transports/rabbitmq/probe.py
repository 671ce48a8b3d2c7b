"""A probe of whether a broker confirms anything at all."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from aio_pika.exceptions import PublishError

from bus.localized_text import localized
from bus.transports.rabbitmq.session import Channel, Session

_NOBODY: Final = "pier/probe"


class Probe:
    """Asks on a channel of its own, which is kept.

    Parameters
    ----------
    name
        The broker, for errors.
    within
        Seconds in which it must answer.
    """

    def __init__(self, name: str, within: float) -> None:
        self._name = name
        self._within = within
        self._opened: tuple[Session, Channel] | None = None

    async def ask(self, session: Session) -> None:
        """Publish a message that no queue takes, and wait until it is returned.

        Raises
        ------
        TransportError
            The broker does not confirm: it is unreachable, or blocks publishers because of a memory or disk alarm.
        """

        async def publish() -> None:
            channel = await self._channel(session)
            with suppress(PublishError):  # returned, so it answers
                await channel.raw.basic_publish(b"", routing_key=_NOBODY, mandatory=True, wait=False)

        doing = localized("{name} confirms nothing; it may be short of memory or disk", name=self._name)
        await session.call(doing, publish(), within=self._within)

    async def _channel(self, session: Session) -> Channel:
        if self._opened is None or self._opened[0] is not session or self._opened[1].is_closed:
            self._opened = session, await session.channel(within=self._within, confirms=True)
        return self._opened[1]
