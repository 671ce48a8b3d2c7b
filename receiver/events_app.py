"""``POST /v1/events``: blocks of trace events that producers ship, passed on as they are."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.tracing.audit_ledger import ledger_of
from bus.domain.tracing.events import BLOCK_BYTES, Block, LedgerRow, Stage, decode_block
from bus.errors import InvalidMessage, MessageTooLarge
from bus.events.gathering import stages_of
from bus.http.asgi import (
    JSON,
    Receive,
    RequestRefused,
    Scope,
    Send,
    answer,
    read_body,
    refusing,
    require_lines,
    require_post,
)
from bus.http.problem import problem
from bus.ports.events import Events, SealedBlock
from bus.security.keyring import Keyring
from bus.security.origins import refuse_foreign_page
from bus.security.principals import Principal

PATH: Final = "/v1/events"
LIMIT: Final = 2**20


class EventsApp:
    """Answers 202 when the receiver's own sink has the blocks; a repeat is recognised by readers."""

    def __init__(self, events: Events, keyring: Keyring) -> None:
        self._events = events
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with refusing(scope, receive, send):
            count = await self._take(scope, receive)
            await answer(send, 202, b'{"blocks": %d}' % count, JSON)

    async def _take(self, scope: Scope, receive: Receive) -> int:
        require_post(scope)
        headers = dict(scope["headers"])
        principal = self._keyring.authenticate(headers.get(b"authorization"), headers.get(b"host"))
        refuse_foreign_page(principal, headers)
        principal.require_somewhere("ingest")
        if scope["path"] not in (PATH, PATH + "/") or not self._events.is_on:
            raise RequestRefused(problem(404, "trace events are not taken here", hint="set events to files or kafka"))
        require_lines(headers, "blocks of trace events")
        body = await read_body(receive, headers, LIMIT)
        blocks = [_read(line, principal) for line in body.split(b"\n") if line.strip()]
        await self._events.forward(blocks)
        return len(blocks)


def _read(line: bytes, principal: Principal) -> SealedBlock:
    """Check a line as strictly as if it were our own, since the pipeline trusts what it reads.

    Raises
    ------
    InvalidMessage, MessageTooLarge
        It is not exactly a block of a producer.
    AccessDenied
        It names a destination that the key may not send to.
    """
    if len(line) > BLOCK_BYTES:
        raise MessageTooLarge(f"a block has {len(line)} bytes; the limit is {BLOCK_BYTES}", field="block")
    try:
        block = decode_block(line)
    except msgspec.DecodeError as error:
        raise InvalidMessage(f"a line is not a block of trace events: {error}", field="block") from error
    _check(block)
    for destination in {event.destination for event in block.events}:
        principal.require("ingest", destination)
    return SealedBlock(block.emitter, line, stages_of(block.events))


def _check(block: Block) -> None:
    if any(event.stage is not Stage.SENT for event in block.events):
        raise InvalidMessage("producers report the stage 'sent' alone", field="stage")
    if sorted(block.ledger, key=_bucket) != ledger_of(block.events):
        raise InvalidMessage("the ledger does not match the events of the block", field="ledger")


def _bucket(row: LedgerRow) -> tuple[str, str, str, int]:
    return (row.stage, row.destination, row.subscription, row.minute)
