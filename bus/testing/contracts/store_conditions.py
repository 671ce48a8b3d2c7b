"""The contract of stores for conditions of a search beyond comparisons, and for its pages."""

# ruff: noqa: D102, S101

from __future__ import annotations

import itertools
from collections.abc import Sequence

from msgspec.structs import replace

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.identity import trace_number
from bus.domain.message import Message
from bus.domain.searching.conditions import StatusClass
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.ports.store import Page, Stop, Store
from bus.testing.contracts.store_traces import search_all
from bus.testing.writes import DESTINATION, NOON, message, outcome

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
ORDER = b'{"order": {"id": 42, "total": 1.50, "paid": true, "note": null, "a.b": "\\u4e2d", "lines": [{"sku": "A-1"}]}}'


def ended(
    of: Message,
    subscription: str,
    status: Status,
    code: int | None,
    attempts: int = 1,
    error: str = "",
    reason: str = "",
) -> Outcome:
    """Make an outcome whose POST got this answer."""
    made = outcome(of, subscription, status, attempts)
    assert made.attempt is not None
    return replace(made, reason=reason, attempt=replace(made.attempt, status_code=code, error=error))


async def _found(store: Store, sent: Sequence[Message], cases: Sequence[tuple[Selection, Sequence[int]]]) -> None:
    """Check what selections find, in pages of any length."""
    for selection, places in cases:
        for limit in (50, 1):
            assert await search_all(store, selection, limit) == [sent[place].id for place in places], selection


class ConditionContract:
    """The behaviour of ``search`` with ids of any kind, answers, errors, headers and what is in bodies."""

    async def test_an_id_of_any_kind_finds_its_messages(self, store: Store) -> None:
        sent = [
            message(0, key="k-1", traceparent=TRACEPARENT),
            message(1, biz_id="k-1", traceparent=f"00-{TRACE}-00f067aa0ba902b7-00"),
            message(2, key="k-1", biz_id="k-1", original_id=message(99).id),
            message(3, key="k-2", idempotency_key="once-3", retention_days=7),
            message(DAY, key="k-1", traceparent=TRACEPARENT, expected=()),
            message(DAY + 1, biz_id=message(3).id, traceparent="00-1-2-01"),
        ]
        await store.write(sent)
        await store.write([outcome(sent[0], "billing", Status.DEAD), outcome(sent[2], "mail", Status.DELIVERED)])
        cases: list[tuple[Selection, Sequence[int]]] = [
            (Selection(ref="k-1"), (4, 2, 1, 0)),
            (Selection(ref="k-2"), (3,)),
            (Selection(ref="once-3"), (3,)),
            (Selection(ref="k"), ()),
            (Selection(ref="order-0"), (0,)),
            (Selection(ref=sent[3].id), (5, 3)),
            (Selection(ref=sent[0].id.upper().replace("-", "")), (0,)),
            (Selection(ref=message(99).id), (2,)),
            (Selection(ref=message(98).id), ()),
            (Selection(ref=str(trace_number(sent[3].id))), (3,)),
            (Selection(ref=str(trace_number(message(98).id))), ()),
            (Selection(ref=TRACE), (4, 1, 0)),
            (Selection(ref=TRACE.upper()), (4, 1, 0)),
            (Selection(ref=TRACEPARENT), (4, 1, 0)),
            (Selection(ref=TRACE[:-1]), ()),
            (Selection(ref="1"), ()),
            *((Selection(ref=text), ()) for text in ("", " ", "\0", "%", "$ne", "k-1 ")),
            (Selection(ref="k-1", destination="none"), ()),
            (Selection(ref="k-1", destination=DESTINATION, status=Status.DEAD), (0,)),
            (Selection(ref="k-1", subscription="mail", status=Status.DELIVERED), (2,)),
            (Selection(ref="k-1", before=NOON + 2), (1, 0)),
            (Selection(ref="k-1", since=NOON + 2), (4, 2)),
            (Selection(ref="k-1", biz_id="k-1"), (2, 1)),
        ]
        await _found(store, sent, cases)

    async def test_the_names_are_those_of_the_message_that_won(self, store: Store) -> None:
        late = message(5, received_at=NOON + 900, key="late", traceparent=TRACEPARENT)
        early = message(5, received_at=NOON + 100, key="early")
        await store.write([outcome(late, "billing", Status.RETRYING)])
        for sent, name in ((late, "late"), (early, "early"), (late, "early")):
            await store.write([sent])
            for other in ("early", "late"):
                assert await search_all(store, Selection(ref=other)) == [sent.id] * (other == name)
        assert await search_all(store, Selection(ref=TRACE)) == []

    async def test_the_answer_of_the_last_attempt_selects(self, store: Store) -> None:
        sent = [message(number) for number in range(7)]
        await store.write(sent)
        await store.write(
            [
                ended(sent[0], "billing", Status.RETRYING, 503, 1),
                ended(sent[0], "billing", Status.RETRYING, 404, 2),
                ended(sent[0], "mail", Status.DEAD, None, 1),
                ended(sent[1], "billing", Status.DELIVERED, 204),
                ended(sent[2], "billing", Status.DEAD, 503),
                ended(sent[3], "billing", Status.PARKED, 302),
                ended(sent[4], "mail", Status.DELIVERED, 200, 1),
                ended(sent[4], "mail", Status.RETRYING, 500, 2),
                replace(ended(sent[5], "mail", Status.SKIPPED, None), attempt=None),
            ]
        )
        cases: list[tuple[Selection, Sequence[int]]] = [
            (Selection(status_class=StatusClass.SUCCESS), (4, 1)),
            (Selection(status_class=StatusClass.REDIRECT), (3,)),
            (Selection(status_class=StatusClass.REFUSAL), (0,)),
            (Selection(status_class=StatusClass.FAILURE), (2,)),
            (Selection(status_class=StatusClass.NONE), (0,)),
            (Selection(status_class=StatusClass.NONE, subscription="billing"), ()),
            (Selection(status_class=StatusClass.REFUSAL, subscription="billing"), (0,)),
            (Selection(status_class=StatusClass.FAILURE, subscription="billing", destination=DESTINATION), (2,)),
            (Selection(status_class=StatusClass.SUCCESS, subscription="mail", destination=DESTINATION), (4,)),
            (Selection(status_class=StatusClass.REFUSAL, status=Status.DEAD), ()),
            (Selection(status_class=StatusClass.REFUSAL, status=Status.RETRYING), (0,)),
            (Selection(status_class=StatusClass.REFUSAL, status=Status.RETRYING, destination=DESTINATION), (0,)),
            (Selection(status_class=StatusClass.FAILURE, status=Status.DELIVERED), ()),
            (Selection(status_class=StatusClass.FAILURE, destination="none"), ()),
        ]
        await _found(store, sent, cases)

    async def test_the_text_of_an_error_selects(self, store: Store) -> None:
        sent = [message(number) for number in range(5)]
        await store.write(sent)
        await store.write(
            [
                ended(sent[0], "billing", Status.RETRYING, None, error="Read timed out"),
                ended(sent[0], "mail", Status.DEAD, 500, reason="HTTP 500; retries exhausted"),
                ended(sent[1], "billing", Status.RETRYING, None, 1, error="read timed out"),
                ended(sent[1], "billing", Status.DELIVERED, 200, 2),
                ended(sent[2], "mail", Status.CANCELED, None, reason="the subscription was removed"),
                replace(ended(sent[3], "mail", Status.SKIPPED, None, reason="timed out"), attempt=None),
            ]
        )
        cases: list[tuple[Selection, Sequence[int]]] = [
            (Selection(error="timed OUT"), (0,)),
            (Selection(error="500"), (0,)),
            (Selection(error="removed"), (2,)),
            (Selection(error="%"), ()),
            (Selection(error="500", subscription="billing"), ()),
            (Selection(error="500", subscription="mail", destination=DESTINATION), (0,)),
            (Selection(error="500", status=Status.RETRYING), ()),
            (Selection(error="500", status=Status.DEAD, status_class=StatusClass.FAILURE), (0,)),
            (Selection(error="timed out", status_class=StatusClass.FAILURE), ()),
            (Selection(error="timed out", source="nobody"), ()),
        ]
        await _found(store, sent, cases)

    async def test_a_header_selects(self, store: Store) -> None:
        sent = [
            message(0, headers={"X-Tenant": "t1", "x-region": "eu"}),
            message(1, headers={"x-tenant": "T1"}),
            message(2, headers={"x-tenant": ""}),
            message(3, headers={"x-note": " ü ", "t1": "other"}),
        ]
        await store.write(sent)
        cases: list[tuple[Selection, Sequence[int]]] = [
            (Selection(header="x-note: ü"), (3,)),
            (Selection(header="X-TENANT"), (2, 1, 0)),
            (Selection(header="x-tenant:"), (2, 1, 0)),
            (Selection(header="X-Tenant: t1"), (0,)),
            (Selection(header="x-tenant:T1"), (1,)),
            (Selection(header="x-tenant: t"), ()),
            (Selection(header="tenant"), ()),
            (Selection(header="x-region: eu", source="shop", destination=DESTINATION), (0,)),
        ]
        await _found(store, sent, cases)

    async def test_what_is_in_the_body_selects(self, store: Store) -> None:
        bodies = (
            ORDER,
            b'{"order": {"id": "42"}}',
            "中 [1, 2]".encode(),
            b"\xff\x00 order",
            b"",
            b'["order", {"id": 7}]',
            b'{"\\u006frder": {"note": "a\\/b", "\\u0069d": "\\u0037"}}',
        )
        sent = [message(number, body=body, retention_days=7 + number % 2) for number, body in enumerate(bodies)]
        await store.write(sent)
        cases: list[tuple[Selection, Sequence[int]]] = [
            (Selection(body_text="order"), (5, 3, 1, 0)),
            (Selection(body_text="Order"), ()),
            (Selection(body_text="中"), (2, 0)),
            (Selection(body_text='"id": 42'), (0,)),
            (Selection(body_text="\0"), (3,)),
            (Selection(body_text=""), (6, 5, 4, 3, 2, 1, 0)),
            (Selection(body_path="order.id"), (6, 1, 0)),
            (Selection(body_path="order.id", body_value="7"), (6,)),
            (Selection(body_path="order.note", body_value="a/b"), (6,)),
            (Selection(body_path="order.id", body_value=""), ()),
            (Selection(body_path="order.id", body_value="42"), (1, 0)),
            (Selection(body_path="order.id", body_value="4"), ()),
            (Selection(body_path="order.total", body_value="1.50"), (0,)),
            (Selection(body_path="order.total", body_value="1.5"), ()),
            (Selection(body_path="order.paid", body_value="true"), (0,)),
            (Selection(body_path="order.note"), (6, 0)),
            (Selection(body_path="order.note", body_value="null"), (0,)),
            (Selection(body_path='order."a.b"', body_value="中"), (0,)),
            (Selection(body_path="order.lines[0].sku", body_value="A-1"), (0,)),
            (Selection(body_path="order.lines[1].sku"), ()),
            (Selection(body_path="order.lines", body_value='[{"sku": "A-1"}]'), ()),
            (Selection(body_path="[1].id", body_value="7"), (5,)),
            (Selection(body_path="[0]", body_value="order"), (5,)),
            (Selection(body_path="order.id", body_text="lines"), (0,)),
            (Selection(body_text="order", status=Status.DEAD), ()),
            (Selection(body_text="order", before=NOON + 1), (0,)),
            (Selection(body_text="order", biz_id="order-1"), (1,)),
        ]
        await _found(store, sent, cases)

    async def test_a_page_says_what_it_looked_at(self, store: Store) -> None:
        sent = [message(number) for number in range(0, 60, 10)]
        await store.write(sent)
        everything = Selection(destination=DESTINATION, since=NOON + 10, before=NOON + 50)
        pages = await _pages(store, everything, 3)
        assert [trace.id for page in pages for trace in page.traces] == [one.id for one in reversed(sent[1:5])]
        _check_chain(pages, everything)
        assert Stop.LIMIT in [page.searched.stop for page in pages]
        for selection in (Selection(), Selection(body_text="nowhere"), Selection(ref="nothing"), Selection(error="x")):
            pages = await _pages(store, selection, 50)
            _check_chain(pages, selection)
            assert sum(len(page.traces) for page in pages) == (6 if selection == Selection() else 0)


async def _pages(store: Store, selection: Selection, limit: int) -> list[Page]:
    pages = [await store.search(selection, limit=limit)]
    while pages[-1].next is not None:
        pages.append(await store.search(selection, cursor=pages[-1].next, limit=limit))
    return pages


def _check_chain(pages: Sequence[Page], selection: Selection) -> None:
    """Check that pages look at all times that were asked for, and at none twice but a divided millisecond."""
    assert pages[0].searched.before == selection.before
    assert (pages[-1].searched.since, pages[-1].searched.stop) == (selection.since, None)
    for one, following in itertools.pairwise(pages):
        assert one.searched.stop is not None
        assert one.searched.since is not None
        assert following.searched.before is not None
        assert 0 <= following.searched.before - one.searched.since <= 1
    for page in pages:
        for trace in page.traces:
            made_at = int(trace.id.replace("-", "")[:12], 16)
            assert page.searched.since is None or made_at >= page.searched.since
            assert page.searched.before is None or made_at < page.searched.before
