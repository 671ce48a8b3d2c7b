"""A trace survives its document; what is no such document is damaged; plans, names and slices."""

from __future__ import annotations

import bson
import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.identity import id_time
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.trace import merge_message, merge_outcome, start_trace
from bus.stores.mongodb.bodies import reference_of
from bus.stores.mongodb.forms import DamagedDocument, read_body_reference, read_trace, trace_form
from bus.stores.mongodb.inserting import slices
from bus.stores.mongodb.names import Label, day_of_id, label_of, label_of_bodies, label_of_traces, lane_name, lane_of
from bus.stores.mongodb.planning import plan_for
from bus.testing.writes import NOON, message, outcome


def traced(**changes):
    sent = message(7, headers={"x.y": "1", "$z": "2", "": "3"}, **changes)
    trace = start_trace(sent.id, sent.destination, sent.retention_days)
    merge_message(trace, sent)
    merge_outcome(trace, outcome(sent, "a.b/$c", Status.RETRYING, 2))
    merge_outcome(trace, outcome(sent, "a.b/$c", Status.RETRYING, 1))
    merge_outcome(trace, outcome(sent, "mail", Status.DELIVERED, 1))
    return trace


def form_of(trace, body: str = "") -> dict:
    return bson.decode(bson.encode({"_id": trace.id, "revision": "r"} | trace_form(trace, body)))


def test_a_trace_survives_its_document() -> None:
    trace = traced()
    form = form_of(trace, "ref")
    assert read_trace(form) == trace
    assert read_body_reference(form) == "ref"
    assert form["status"] == "retrying"
    assert form["lanes"] == ["pending:orders/billing", "retrying:orders/a.b/$c"]
    assert [attempt["n"] for attempt in form["deliveries"][0]["attempts"]] == [1, 2]


def test_a_trace_without_its_message_survives_its_document() -> None:
    trace = start_trace(message().id, "orders", 30)
    merge_outcome(trace, outcome(message(), "mail", Status.DEAD, 4))
    form = form_of(trace)
    assert read_trace(form) == trace
    assert "message" not in form
    assert read_body_reference(form) == ""
    assert form["received_at"] == id_time(trace.id)


def test_a_document_of_another_version_is_read_as_far_as_it_goes() -> None:
    trace = traced()
    form = form_of(trace)
    form["new"] = form["message"]["new"] = form["deliveries"][0]["new"] = {"more": 1}
    assert read_trace(form) == trace
    del form["message"]["tracestate"], form["deliveries"][0]["due_at"], form["deliveries"][2]["attempts"]
    assert read_trace(form).deliveries["a.b/$c"].due_at == 0
    assert read_trace(form).deliveries["mail"].attempts == {}


@pytest.mark.parametrize(
    "change",
    [
        {"destination": None},
        {"retention_days": "30"},
        {"deliveries": None},
        {"deliveries": "rubbish"},
        {"deliveries": [7]},
        {"deliveries": [{"status": "pending"}]},
        {"deliveries": [{"subscription": "mail", "status": "gone"}]},
        {"deliveries": [{"subscription": "mail", "attempts": [{"id": "x"}]}]},
        {"message": "rubbish"},
        {"message": {"received_at": "yesterday"}},
        {"message": {"destination": "orders", "headers": [1]}},
        {"message": {"destination": "orders"}, "body": None},
        {"message": {"destination": "orders"}, "body": {"ref": 1, "bytes": 1}},
    ],
)
def test_anything_else_is_damaged(change: dict) -> None:
    form = form_of(traced()) | change
    with pytest.raises(DamagedDocument):
        read_trace(form)
    for name in change:
        del form[name]
    if "message" not in change:
        with pytest.raises(DamagedDocument):
            read_trace(form)


def test_names_are_reversible() -> None:
    label = label_of(message().id, 7)
    assert label == Label(NOON // DAY, 7)
    assert (label.name, label.traces) == ("20261121-7d", "traces_20261121_7d")
    assert label_of_traces(label.traces) == label_of_bodies(label.bodies) == label
    for name in ("traces_20269999_7d", "traces_20261121_7d_old", "bodies_20261121_7d", "documents", "traces_"):
        assert label_of_traces(name) is None
    assert lane_of(lane_name("a.b", "c/d")) == ("a.b", "c/d")
    assert day_of_id(message().id.upper()) == (message().id, label.day)
    for name in ("", "not-an-id", "ffffffff-ffff-7000-8000-000000000000"):
        assert day_of_id(name) is None


@pytest.mark.parametrize(
    ("selection", "first", "exact"),
    [
        (Selection(), {}, True),
        (Selection(destination="orders"), {"destination": "orders"}, True),
        (Selection(biz_id=""), {"message.biz_id": ""}, True),
        (Selection(status=Status.DEAD), {"status": "dead"}, True),
        (Selection(status=Status.DELIVERED), {}, False),
        (Selection(status=Status.DEAD, destination="orders"), {"status": "dead"}, False),
        (Selection(destination="orders", subscription="mail", status=Status.DEAD), {"lanes": "dead:orders/mail"}, True),
        (Selection(destination="orders", subscription="mail"), {"destination": "orders"}, False),
        (Selection(source="shop", text="x"), {"message.source": "shop"}, False),
    ],
)
def test_a_search_follows_the_narrowest_index(selection: Selection, first: dict, exact: bool) -> None:
    plan = plan_for(selection)
    assert plan.first == first
    assert (not plan.rest) is exact


def test_a_text_is_searched_as_it_is() -> None:
    (either, *_) = plan_for(Selection(text="a.b\0")).rest["$or"]
    assert either == {"_id": {"$regex": r"a\.b\x00"}}


def test_slices_hold_what_one_exchange_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(slices([])) == []
    assert [len(piece) for piece in slices(range(1_001))] == [500, 500, 1]
    monkeypatch.setattr("bus.stores.mongodb.inserting.MOST_BYTES", 10)
    assert list(slices([4, 6, 1, 30, 2, 8], int)) == [[4, 6], [1], [30], [2, 8]]


def test_an_empty_body_is_stored_nowhere() -> None:
    assert reference_of("id", b"").name == ""
    assert reference_of("id", b"a").name != reference_of("id", b"b").name
