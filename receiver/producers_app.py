"""``/v1/producers``: the lease of a strictly ordered destination, which the producer that has it sends to alone."""

from __future__ import annotations

import re
from typing import Final, Protocol

import msgspec

from bus.domain.destination import Ordering
from bus.domain.ordering.chain import Lease, check_takeover
from bus.errors import Conflict, InvalidMessage
from bus.http.asgi import JSON, Receive, RequestRefused, Scope, Send, answer, encode, read_body, refusing
from bus.http.problem import problem
from bus.localized_text import localized
from bus.registry import Registry
from bus.security.keyring import Keyring
from bus.security.origins import refuse_foreign_page
from receiver.destinations import find_destination, no_producers

PREFIX: Final = "/v1/producers"
LIMIT: Final = 4096
_OWNER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


class LeaseKeeper(Protocol):
    """The keeper of the leases (`bus.transports.chains.chains.Chains`)."""

    async def produce(self, code: str, owner: str, takeover_after: float, epoch: int) -> Lease:
        """Return the producer that alone may send now: this producer, or another one; raises ``NotLeader``."""
        ...

    async def release(self, code: str, owner: str) -> None:
        """Let others send again after a producer; raises ``NotLeader``."""
        ...


class _LeaseBody(msgspec.Struct):
    owner: str
    takeover_after: float = 0.0
    epoch: int = 0


_asked: Final = msgspec.json.Decoder(_LeaseBody)


class ProducersApp:
    """``POST /v1/producers/{destination}`` takes or renews a lease, ``DELETE .../{destination}/{owner}`` releases it.

    Both may be repeated. They are answered by the process that sends to the destination; another one says where it is.
    """

    def __init__(self, leasing: LeaseKeeper, registry: Registry, keyring: Keyring) -> None:
        self._leasing = leasing
        self._registry = registry
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with refusing(scope, receive, send):
            code, *owner = scope["path"].removeprefix(PREFIX).strip("/").split("/")
            if len(owner) > 1:
                raise RequestRefused(problem(404, f"there is no {scope['path']}"))
            if owner:
                await self._release(scope, code, owner[0])
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body"})
            else:
                lease = await self._take(scope, receive, code)
                await answer(send, 200, encode({"epoch": lease.epoch, "owner": lease.owner}), JSON)

    async def _take(self, scope: Scope, receive: Receive, code: str) -> Lease:
        self._check(scope, b"POST", code)
        body = await read_body(receive, dict(scope["headers"]), LIMIT)
        try:
            asked = _asked.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidMessage(f'the body is not {{"owner": "..."}}: {error}', field="owner") from error
        owner, seconds = _owner(asked.owner), asked.takeover_after
        if seconds:
            check_takeover(seconds)
        lease = await self._leasing.produce(code, owner, seconds, asked.epoch)
        if lease.owner != owner or asked.epoch not in (0, lease.epoch):
            raise _taken(code, lease) if lease.owner else Conflict(f"the lease of {code!r} was given up")
        return lease

    async def _release(self, scope: Scope, code: str, owner: str) -> None:
        self._check(scope, b"DELETE", code)
        await self._leasing.release(code, _owner(owner))

    def _check(self, scope: Scope, method: bytes, code: str) -> None:
        """Refuse another method, a caller that may not send there, and a destination without a strict order."""
        if scope["method"] != method.decode():
            raise RequestRefused(problem(405, f"{scope['path']} takes {method.decode()}"), (b"allow", method))
        headers = dict(scope["headers"])
        principal = self._keyring.authenticate(headers.get(b"authorization"), headers.get(b"host"))
        refuse_foreign_page(principal, headers)
        destination = find_destination(self._registry, code)
        principal.require("ingest", code)
        if destination.ordering is not Ordering.STRICT:
            raise no_producers(destination)


def _owner(owner: str) -> str:
    if not _OWNER.fullmatch(owner):
        raise InvalidMessage("owner is 1 to 128 of the characters A-Z a-z 0-9 . _ -", field="owner")
    return owner


def _taken(code: str, lease: Lease) -> Conflict:
    return Conflict(
        localized("{owner} sends to {code} alone", owner=lease.owner, code=repr(code)),
        hint=localized(
            "wait until it has ended, or a sweeper has sent what it left; if its disk is lost: {command}",
            command=f"bus ordering release-producer {code}",
        ),
    )
