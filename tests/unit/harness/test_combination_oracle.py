"""The oracle of combinations: it accepts a row that kept all promises, and names each one that was broken."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.acceptance.combinations.entries import Draft
from tests.acceptance.combinations.model import FACTORS, groups, rows
from tests.acceptance.combinations.oracle import Expected, Seen, Sent, Verdict, Window, judge
from tests.harness.records import Call

PATH = "/row-1/main"
DRAFTS = [Draft(f"row-1-{seq}", seq, b"%d" % seq, "text/plain", "key") for seq in range(3)]
Change = Callable[[Seen], Seen]


def call_of(draft: Draft, **fields: Any) -> Call:
    call = Call(
        t=100.5 + draft.seq,
        path=PATH,
        id=f"id-{draft.seq}",
        sha256=hashlib.sha256(draft.body).hexdigest(),
        status=200,
        attempt=1,
        destination="row-1",
        bytes=1,
        in_flight=1,
        biz_id=draft.biz_id,
    )
    return msgspec.structs.replace(call, **fields)


def delivery(status: str = "delivered", code: int = 200) -> dict[str, Any]:
    return {"subscription": "main", "status": status, "attempts": [{"status_code": code}] if code else []}


def good(**fields: Any) -> Seen:
    seen = Seen(
        sent=[Sent(draft, 100.0 + draft.seq, "accepted") for draft in DRAFTS],
        calls=[call_of(draft) for draft in DRAFTS],
        traces={f"id-{draft.seq}": (draft.biz_id, [delivery()]) for draft in DRAFTS},
        windows=[],
        repeats=0,
        keeps_order=True,
    )
    return dataclasses.replace(seen, **fields)


def judged(seen: Seen, **fields: Any) -> Verdict:
    return judge(seen, [Expected(PATH, **{"bound": 1, **fields})])


def with_last(**fields: Any) -> list[Call]:
    *others, last = good().calls
    return [*others, msgspec.structs.replace(last, **fields)]


def test_a_row_that_kept_its_promises_passes() -> None:
    assert judged(good()) == Verdict(accepted=3)


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (good(calls=good().calls[:-1]), "not delivered and not final"),
        (good(calls=[*good().calls, call_of(Draft("row-1-9", 9, b"", ""))]), "unexpected"),
        (good(calls=[*good().calls, call_of(DRAFTS[0], t=103.5)]), "repeated"),
        (good(calls=with_last(sha256="other")), "with other bytes"),
        (good(calls=with_last(in_flight=2)), "2 requests in flight, 1 allowed"),
        (good(calls=good().calls[::-1]), "out of order"),
        (good(calls=with_last(t=104.1)), "blocked for more than 2.0 s"),
        (good(traces={"id-0": (DRAFTS[0].biz_id, [delivery("pending", 0)])}), "the trace of row-1-0"),
        (good(traces={"id-0": (DRAFTS[0].biz_id, [delivery("canceled", 0)])}), "the trace of row-1-0"),
    ],
)
def test_each_broken_promise_is_named(seen: Seen, complaint: str) -> None:
    found = judged(seen)
    assert any(complaint in text for text in found.complaints), found


@pytest.mark.parametrize(
    ("seen", "fields"),
    [
        (good(calls=with_last(t=109.0), windows=[Window(103.0, 108.0)]), {}),
        (good(calls=with_last(t=109.0)), {"windows": [Window(101.0, 104.0), Window(103.5, 108.0)]}),
        (good(calls=[*good().calls, call_of(DRAFTS[0], t=103.5)], repeats=1), {}),
        (good(calls=[*good().calls, call_of(DRAFTS[0], t=103.5)]), {"resent": frozenset({DRAFTS[0].biz_id})}),
        (good(calls=good().calls[1:], traces={}), {"since": 100.5}),
        (good(calls=with_last(in_flight=9)), {"bound": None}),
        (
            good(calls=good().calls[:2], traces={"id-2": (DRAFTS[2].biz_id, [delivery("canceled", 0)])}),
            {"final": frozenset({"canceled"})},
        ),
        (
            good(traces={"id-2": (DRAFTS[2].biz_id, [delivery("canceled", 0)])}, windows=[Window(103.0, 104.0)]),
            {"final": frozenset({"canceled"})},
        ),
    ],
)
def test_what_is_explained_is_no_complaint(seen: Seen, fields: dict[str, Any]) -> None:
    assert judged(seen, **fields).complaints == ()


def test_a_subscriber_that_takes_one_after_the_other_may_take_long_but_not_stand_still() -> None:
    late = [call_of(draft, t=103.0 + 1.5 * draft.seq) for draft in DRAFTS]
    moves = [call_of(DRAFTS[0], t=100.5 + step, status=503) for step in range(3)]
    assert judged(good(calls=late), is_prompt=False).blocked == 1
    assert judged(good(calls=late), is_prompt=False, retry_wait=60.0).blocked == 0
    assert judged(good(calls=[*moves, *late]), is_prompt=False).blocked == 0


def test_the_rows_cover_each_pair_that_is_possible() -> None:
    found = rows(2, 1)
    assert {row.entry for row in found if row.subscription == "single"} == set(FACTORS["entry"])
    assert not [row for row in found if row.identity == "event" and row.entry not in ("cloudevents", "agent")]
    spread = [row for group in groups(found, 4, 1) for row in group.rows]
    assert sorted(spread) == sorted(found)
    assert all(len({(row.processes, row.fault) for row in group.rows}) == 1 for group in groups(found, 4, 1))
