"""A message with a wrong body is edited: the subscriber gets a new one, and the traces of both name each other."""

from __future__ import annotations

import hashlib

from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until


def test_an_edited_message_is_delivered_as_a_new_one(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
    old = bus.admin.send("orders", b'{"to": "nowhere"}', bus_biz_id="42").raise_for_status().json()["id"]
    assert bus.admin.wait_drained("orders", [old], within=30) == {"delivered": 1}

    asked = {"body": {"to": "here"}, "reason": "it went nowhere"}
    made = bus.admin.call("POST", f"/api/v1/messages/{old}/edit", json=asked).raise_for_status().json()["id"]
    wait_until(lambda: subscriber.count("/shop") > 1, within=30, what="the call with the edited message")
    call = subscriber.calls("/shop")[-1]
    assert (call.id, call.biz_id, call.attempt) == (made, "42", 1)
    assert call.sha256 == hashlib.sha256(bus.admin.body(made)).hexdigest()

    assert bus.admin.wait_drained("orders", [old, made], within=30) == {"delivered": 2}
    assert bus.admin.trace(made)["edited_from"]["id"] == old
    assert [edit["id"] for edit in bus.admin.trace(old)["edits"]] == [made]
    assert bus.admin.body(old) == b'{"to": "nowhere"}'
