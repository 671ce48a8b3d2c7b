"""Events wait in memory up to a bound, and leave in numbered blocks."""

from __future__ import annotations

from bus.domain.identity import id_time, new_id
from bus.domain.tracing.audit_ledger import ledger_of
from bus.domain.tracing.events import BLOCK_BYTES, BLOCK_EVENTS, Block, Stage, TraceEvent, decode_block
from bus.events.gathering import EventBuffer

NOW = 1_732_240_000_123


def event(number: int = 0, **more: str) -> TraceEvent:
    return TraceEvent(stage=Stage.SENT, at=NOW, id=new_id(NOW + number), destination="orders", **more)


def gathering(most: int = 50_000) -> EventBuffer:
    return EventBuffer("receiver+dispatcher", "host-1", NOW, most=most)


def closed(gathered: EventBuffer) -> Block:
    sealed = gathered.close(NOW)
    assert sealed is not None
    assert sealed.emitter == gathered.emitter
    return decode_block(sealed.line)


def test_a_block_has_what_was_added_in_order_and_its_ledger() -> None:
    gathered = gathering()
    assert gathered.close(NOW) is None
    told = [event(number) for number in range(5)]
    assert all(gathered.add(one) for one in told)
    block = closed(gathered)
    assert (block.seq, block.role, block.node, block.at, block.lost) == (1, "receiver+dispatcher", "host-1", NOW, 0)
    assert id_time(block.emitter) == NOW
    assert block.events == told
    assert block.ledger == ledger_of(told)
    assert gathered.close(NOW) is None


def test_a_sign_of_life_is_a_block_without_events_and_may_be_the_last() -> None:
    gathered = gathering()
    signs = [decode_block(gathered.sign(NOW).line), decode_block(gathered.sign(NOW, last=True).line)]
    assert [(block.seq, block.events, block.ledger, block.last) for block in signs] == [
        (1, [], [], False),
        (2, [], [], True),
    ]


def test_blocks_are_numbered_and_of_a_thousand_events_at_most() -> None:
    gathered = gathering()
    for number in range(2 * BLOCK_EVENTS + 1):
        gathered.add(event(number))
    blocks = [closed(gathered) for _ in range(3)]
    assert [(block.seq, len(block.events)) for block in blocks] == [(1, BLOCK_EVENTS), (2, BLOCK_EVENTS), (3, 1)]


def test_long_texts_make_shorter_blocks_and_lose_nothing() -> None:
    gathered = gathering()
    told = [event(number, source="é" * 512, biz_id="x" * 512) for number in range(BLOCK_EVENTS)]
    for one in told:
        gathered.add(one)
    blocks = []
    while (sealed := gathered.close(NOW)) is not None:
        assert len(sealed.line) <= BLOCK_BYTES
        blocks.append(decode_block(sealed.line))
    assert [block.seq for block in blocks] == list(range(1, len(blocks) + 1))
    assert [one for block in blocks for one in block.events] == told


def test_what_there_is_no_room_for_is_lost_and_the_next_block_says_so() -> None:
    gathered = gathering(most=3)
    assert [gathered.add(event(number)) for number in range(5)] == [1, 2, 3, 0, 0]
    assert closed(gathered).lost == 2
    assert gathered.add(event())
    assert gathered.drop() == 1
    assert gathered.lost == 3
