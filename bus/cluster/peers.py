"""HTTP from one process of the bus to another."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections import defaultdict
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from bus.cluster.lease import Promise, Question
from bus.cluster.member import Member
from bus.errors import Conflict, EgressDenied, PeerUnavailable, StoreError
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.poster import Poster, PostFailure, PostResult, Target
from bus.ports.store import DocumentStore

PREFIX: Final = "/internal/v1"
MESSAGES: Final = f"{PREFIX}/messages"
DELIVERIES: Final = f"{PREFIX}/deliveries"
ROOM: Final = f"{PREFIX}/room"
WAITING: Final = f"{PREFIX}/waiting"
PROMISE: Final = f"{PREFIX}/promise"
CONTENT_TYPE: Final = "application/vnd.msgpack"
_SETTINGS: Final = "settings"
_KEY: Final = "peer-key"
_TIMEOUT: Final = 5.0
_QUICK: Final = 1.0
_AT_ONCE: Final = 100
"""Calls of one process that another one has to answer at a time."""
_BYTES_PER_SECOND: Final = 1 << 20
LONGEST_ANSWER: Final = 32 << 20
"""Bytes from which on an answer is assumed to be cut off."""
_OK: Final = 200
_UNKNOWN: Final = 401
_FAILED: Final = 500
_LOADED_FOR: Final = 1.0


class Alive(msgspec.Struct, frozen=True):
    """Answer of a process to a liveness request, with its name."""

    status: str
    owner: str


class PeerKey:
    """The secret by which processes of one bus authenticate; made by the first one, and kept in the store."""

    def __init__(self, documents: DocumentStore, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._value = ""
        self._loaded_at = float("-inf")

    async def load(self) -> None:
        """Read the secret, or make it; raises ``StoreError``."""
        self._loaded_at = self._clock.monotonic()
        found = await self._documents.get(_SETTINGS, _KEY)
        if found is None:
            # Another process may have made it just now.
            with contextlib.suppress(Conflict):
                await self._documents.put(_SETTINGS, _KEY, secrets.token_urlsafe(32).encode(), version=0)
            found = await self._documents.get(_SETTINGS, _KEY)
        self._value = found.value.decode() if found is not None else ""

    async def renew(self) -> None:
        """Replace the secret, so that the old one is not accepted any more; raises ``StoreError``."""
        self._value = secrets.token_urlsafe(32)
        await self._documents.put(_SETTINGS, _KEY, self._value.encode())

    async def is_current(self, authorization: bytes | None) -> bool:
        """Whether a request comes from a process of this bus; looks again when the store may have a newer secret.

        A caller without any secret can cause at most one read a second. Raises ``StoreError``.
        """
        if self.opens(authorization):
            return True
        if self._clock.monotonic() - self._loaded_at < _LOADED_FOR:
            return False
        await self.load()
        return self.opens(authorization)

    @property
    def header(self) -> str:
        """The value of the Authorization header."""
        return f"Bearer {self._value}"

    def opens(self, authorization: bytes | None) -> bool:
        """Whether a request comes from a process of this bus."""
        return bool(self._value) and hmac.compare_digest(authorization or b"", self.header.encode())


class Peers:
    """Calls to other processes, over connections that are kept.

    Parameters
    ----------
    poster
        Calls any address, and keeps the whole of an answer.
    """

    def __init__(self, key: PeerKey, poster: Poster) -> None:
        self._key = key
        self._poster = poster
        # Of each process, by its URL.
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, _AT_ONCE))

    async def ask(self, member: Member, path: str, content: object = None) -> bytes:
        """Return the answer of a process to a question that it answers at once; raises ``PeerUnavailable``."""
        return await self._call(member, path, content, _QUICK)

    async def call(self, member: Member, path: str, content: object, *, within: float | None = None) -> bytes:
        """POST msgpack and return the answer's body.

        Parameters
        ----------
        within
            Seconds that the process may take, 5 when not given.

        Raises
        ------
        PeerUnavailable
            No answer, or another one than 200; ``indeterminate`` is whether the process may have acted on it.
        """
        return await self._call(member, path, content, _TIMEOUT if within is None else within)

    async def _call(self, member: Member, path: str, content: object, timeout: float) -> bytes:  # noqa: ASYNC109
        body = msgspec.msgpack.encode(content)
        answer = await self._post(member, path, body, timeout)
        if answer.status == _UNKNOWN:
            await self._renew()
            answer = await self._post(member, path, body, timeout)
        if answer.status != _OK:
            # One that failed in the middle may have acted on a part.
            failed = (status := answer.status or 0) >= _FAILED
            raise PeerUnavailable(
                localized("{url} answered {status}", url=member.url, status=status), indeterminate=failed
            )
        return answer.response

    async def _renew(self) -> None:
        """Read the secret again: a store that was wiped has another one."""
        try:
            await self._key.load()
        except StoreError as error:
            raise PeerUnavailable(
                localized("the secret of this bus cannot be read: {error}", error=str(error))
            ) from error

    async def _post(self, member: Member, path: str, body: bytes, timeout: float) -> PostResult:  # noqa: ASYNC109
        """Return an answer that is whole."""
        headers = {"authorization": self._key.header, "content-type": CONTENT_TYPE}
        try:
            target = self._poster.target(f"{member.url}{path}", headers)
        except (EgressDenied, ValueError) as error:
            raise _silent(member, str(error), indeterminate=False) from error
        turn = self._turns[member.url]
        try:
            async with asyncio.timeout(timeout):
                await turn.acquire()
        except TimeoutError as error:
            raise _silent(member, "too many calls wait for its answers", indeterminate=False) from error
        try:
            found = await self._once(target, body, timeout + len(body) / _BYTES_PER_SECOND)
        finally:
            turn.release()
        if found is None:
            raise _silent(member, "the connection was closed", indeterminate=True)
        if found.failure is not None or not found.is_whole or len(found.response) >= LONGEST_ANSWER:
            raise _silent(
                member,
                found.error or "the answer is cut off",
                indeterminate=found.indeterminate or found.status is not None,
            )
        return found

    async def _once(self, target: Target, body: bytes, timeout: float) -> PostResult | None:  # noqa: ASYNC109
        """POST on a kept connection or a new one; None when a kept one was closed without an answer.

        The process may have acted on it then: another life of it would not recognise a repetition.
        """
        waiter = _SingleAttempt()
        ongoing = self._poster.begin(target, [], body, timeout, waiter)
        if ongoing is None:
            return await self._poster.post(target, [], body, timeout)
        try:
            return await waiter.told
        finally:
            if waiter.told.cancelled():
                ongoing.cancel()

    async def lives(self, member: Member) -> bool | None:
        """Return True if a process runs, False if it has ended, None if neither is certain.

        It has ended when its host refuses the connection, or when another process has its URL. A later run of it
        counts: it uses the share of the one before.
        """
        try:
            target = self._poster.target(f"{member.url}/healthz", {}, method="GET")
            answer = await self._poster.post(target, [], b"", _QUICK)
            if answer.failure is PostFailure.REFUSED:
                return False
            found = msgspec.json.decode(answer.response, type=Alive)
        except (EgressDenied, ValueError):  # whatever it is, this process did not answer
            return None
        return found.owner == member.owner if answer.status == _OK else None

    async def promise(self, member: Member, question: Question) -> Promise | None:
        """Ask a dispatcher for a promise (``Members.promise``) to this process; None when it does not answer."""
        try:
            answer = await self.ask(member, PROMISE, question)
            return msgspec.msgpack.decode(answer, type=Promise)
        except (PeerUnavailable, msgspec.DecodeError):
            return None


class _SingleAttempt:
    """Waits for a POST on a kept connection, and has it not made again."""

    def __init__(self) -> None:
        self.told: asyncio.Future[PostResult | None] = asyncio.get_running_loop().create_future()

    def set_result(self, result: PostResult, /) -> None:
        """Receive the result."""
        if not self.told.done():
            self.told.set_result(result)

    def go_on(self, post: Coroutine[Any, Any, PostResult], /) -> None:
        """Learn that the connection was closed."""
        post.close()
        if not self.told.done():
            self.told.set_result(None)


def _silent(member: Member, error: str, *, indeterminate: bool) -> PeerUnavailable:
    return PeerUnavailable(
        localized("{url} does not answer: {error}", url=member.url, error=error), indeterminate=indeterminate
    )
