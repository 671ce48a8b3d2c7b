"""A connection that is rebuilt without end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bus.call_watch import CallWatch
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.transports.backoff import Backoff
from bus.transports.rabbitmq.addresses import Address, Addresses
from bus.transports.rabbitmq.config import ClusterUrl, Patience
from bus.transports.rabbitmq.session import Session

_log = logging.getLogger(__name__)
_FIRST_BACKOFF: Final = 0.1

Prepare = Callable[[Session], Awaitable[None]]


class Connection:
    """Keeps one connection to a cluster up.

    Parameters
    ----------
    name
        The cluster, and what the connection is for.
    prepare
        Called with each new connection before anybody else gets it; it is up when it returns.
    changed
        Called with whether it is up, each time that this changed.
    noise
        Random numbers from 0 to 1.
    """

    def __init__(
        self,
        name: str,
        url: ClusterUrl,
        addresses: Addresses,
        patience: Patience,
        clock: Clock,
        noise: Callable[[], float],
        *,
        prepare: Prepare | None = None,
        changed: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._url = url
        self._addresses = addresses
        self._patience = patience
        self._clock = clock
        self._prepare = prepare
        self._changed = changed
        self._call_watch = CallWatch(f"the connection {name}")
        self._session: Session | None = None
        self._trouble: TransportError | None = TransportUnavailable(localized("{name}: not connected yet", name=name))
        self._backoff = Backoff(_FIRST_BACKOFF, patience.longest_backoff, noise)
        self._is_up = asyncio.Event()
        self._was_tried = asyncio.Event()

    @property
    def trouble(self) -> TransportError | None:
        """The error of the connection; None while it is up."""
        return None if self.session is not None else self._trouble

    @property
    def session(self) -> Session | None:
        """The connection, if it is up."""
        session = self._session
        return session if session is not None and not session.lost.is_set() else None

    async def up(self) -> Session:
        """Wait until the connection is up, without a time limit."""
        while (session := self.session) is None:
            self._is_up.clear()
            await self._is_up.wait()
        return session

    async def reach(self) -> Session:
        """Return the connection; right after the start wait for the first attempt.

        Raises
        ------
        TransportError
            It is down, and why.
        """
        if not self._was_tried.is_set():
            try:
                async with asyncio.timeout(self._patience.connect + self._patience.answer):
                    await self._was_tried.wait()
            except TimeoutError:
                raise TransportUnavailable(localized("{name}: not connected yet", name=self._name)) from None
        if (session := self.session) is None:
            raise self._trouble or TransportUnavailable(localized("{name}: the connection was lost", name=self._name))
        return session

    async def run(self) -> None:
        """Connect, and reconnect, until cancelled; an open connection then stays so until ``close``."""
        while True:
            try:
                session = self.session or await self._connect()
            except TransportError as error:
                self._fail(error)
            else:
                await self._keep(session)
            await self._clock.sleep(self._backoff.fail())

    async def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        self._trouble = TransportUnavailable(localized("{name}: closed", name=self._name))
        if session is not None:
            await session.close(within=self._patience.close)

    async def _connect(self) -> Session:
        """Try every address once.

        Raises
        ------
        TransportError
            The error of the last one, or of the first that refused us, which is more specific.
        """
        candidates = await self._addresses.candidates()
        troubles: list[TransportError] = []
        for address in candidates:
            try:
                session = await self._open(address)
            except TransportError as error:
                self._addresses.failed(address)
                troubles.append(error)
            else:
                self._addresses.worked(address)
                return session
        raise _telling(troubles) or TransportUnavailable(
            localized("{name}: none of its hosts has an address", name=self._name)
        )

    async def _open(self, address: Address) -> Session:
        """Connect to one address and prepare the connection."""
        session = await Session.open(
            self._url,
            address,
            self._name,
            self._call_watch,
            heartbeat=self._patience.heartbeat,
            within=self._patience.connect,
        )
        try:
            if self._prepare is not None:
                await self._prepare(session)
        except BaseException:
            session.abort("it could not be prepared")
            await session.close(within=self._patience.close)
            raise
        return session

    async def _keep(self, session: Session) -> None:
        """Give everybody the connection until it is lost."""
        if self._trouble is not None:
            _log.info("%s is connected to %s", self._name, session.address)
        self._session, self._trouble = session, None
        self._was_tried.set()
        self._is_up.set()
        self._changed(True)
        since = self._clock.monotonic()
        await session.lost.wait()
        self._changed(False)
        if self._clock.monotonic() - since > self._patience.longest_backoff:
            self._backoff.succeed()
        self._fail(
            TransportUnavailable(
                localized("{name}: the connection was lost: {reason}", name=self._name, reason=session.reason)
            )
        )
        await session.close(within=self._patience.close)

    def _fail(self, error: TransportError) -> None:
        if str(error) != str(self._trouble):
            _log.warning("%s; it is tried again for ever", error)
        self._trouble = error
        self._was_tried.set()


def _telling(troubles: list[TransportError]) -> TransportError | None:
    refused = (error for error in troubles if isinstance(error, TransportRefused))
    return next(refused, troubles[-1] if troubles else None)
