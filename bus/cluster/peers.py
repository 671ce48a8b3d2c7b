"""HTTP from one process of the bus to another."""

from __future__ import annotations

import contextlib
import hmac
import secrets
from typing import Final

import httpx
import msgspec

from bus.cluster.member import Member
from bus.errors import Conflict, PeerUnavailable, StoreError
from bus.ports.store import DocumentStore

PREFIX: Final = "/internal/v1"
MESSAGES: Final = f"{PREFIX}/messages"
DELIVERIES: Final = f"{PREFIX}/deliveries"
ROOM: Final = f"{PREFIX}/room"
CONTENT_TYPE: Final = "application/vnd.msgpack"
_SETTINGS: Final = "settings"
_KEY: Final = "peer-key"
_TIMEOUT: Final = httpx.Timeout(5.0, connect=1.0)
_PROBE: Final = httpx.Timeout(1.0)
_OK: Final = 200
_UNKNOWN: Final = 401


class PeerKey:
    """The secret by which processes of one bus know each other; made by the first one, and kept in the store."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._value = ""

    async def load(self) -> None:
        """Read the secret, or make it; raises ``StoreError``."""
        found = await self._documents.get(_SETTINGS, _KEY)
        if found is None:
            # Another process may have made it just now.
            with contextlib.suppress(Conflict):
                await self._documents.put(_SETTINGS, _KEY, secrets.token_urlsafe(32).encode(), version=0)
            found = await self._documents.get(_SETTINGS, _KEY)
        self._value = found.value.decode() if found is not None else ""

    async def is_current(self, authorization: bytes | None) -> bool:
        """Whether a request comes from a process of this bus; looks again when the store may have a newer secret."""
        if self.opens(authorization):
            return True
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
    """Calls to other processes, over connections that are kept."""

    def __init__(self, key: PeerKey) -> None:
        self._key = key
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False)

    async def call(self, member: Member, path: str, content: object) -> bytes:
        """POST msgpack and return the answer's body.

        Raises
        ------
        PeerUnavailable
            No answer, or another one than 200; ``indeterminate`` says whether the process may have acted on it.
        """
        body = msgspec.msgpack.encode(content)
        answer = await self._post(member, path, body)
        if answer.status_code == _UNKNOWN:
            await self._renew()
            answer = await self._post(member, path, body)
        if answer.status_code != _OK:
            raise PeerUnavailable(f"{member.url} answered {answer.status_code}", indeterminate=False)
        return answer.content

    async def _renew(self) -> None:
        """Read the secret again: a store that was wiped has another one."""
        try:
            await self._key.load()
        except StoreError as error:
            raise PeerUnavailable(f"the secret of this bus cannot be read: {error}") from error

    async def _post(self, member: Member, path: str, body: bytes) -> httpx.Response:
        headers = {"authorization": self._key.header, "content-type": CONTENT_TYPE}
        try:
            return await self._client.post(f"{member.url}{path}", content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise PeerUnavailable(f"{member.url} does not answer: {error!r}", indeterminate=False) from error
        except httpx.HTTPError as error:
            raise PeerUnavailable(f"{member.url} broke off: {error!r}", indeterminate=True) from error

    async def lives(self, member: Member) -> bool:
        """Whether a process answers."""
        try:
            answer = await self._client.get(f"{member.url}/healthz", timeout=_PROBE)
        except httpx.HTTPError:
            return False
        return answer.status_code == _OK

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
