"""Commands as the protocol writes them."""

from __future__ import annotations

from bus.transports.nsq.protocol import commands

ID = b"0a1b2c3d4e5f6789"


def test_commands_are_lines_with_their_bodies() -> None:
    assert commands.identify(b"{}") == b"IDENTIFY\n\0\0\0\x02{}"
    assert commands.auth(b"key") == b"AUTH\n\0\0\0\x03key"
    assert commands.sub("orders.eu", "billing") == b"SUB orders.eu billing\n"
    assert commands.rdy(0) == b"RDY 0\n"
    assert commands.fin(ID) == b"FIN 0a1b2c3d4e5f6789\n"
    assert commands.req(ID) == b"REQ 0a1b2c3d4e5f6789 0\n"
    assert commands.req(ID, 250) == b"REQ 0a1b2c3d4e5f6789 250\n"
    assert commands.touch(ID) == b"TOUCH 0a1b2c3d4e5f6789\n"


def test_a_batch_has_its_size_its_count_and_each_size() -> None:
    body = b"\0\0\0\x02" + b"\0\0\0\x01a" + b"\0\0\0\x03bcd"
    assert commands.mpub("orders", [b"a", b"bcd"]) == b"MPUB orders\n\0\0\0" + bytes([len(body)]) + body
    assert len(body) == commands.MPUB_OVERHEAD + 2 * commands.SIZE_OVERHEAD + 4


def test_partitions_are_named_and_ordered_ones_are_subscribed_to_one_by_one() -> None:
    assert commands.mpub("orders", [b"a"], 3).startswith(b"MPUB orders 3\n")
    assert commands.sub("orders", "billing", 0) == b"SUB orders billing 0\n"
    assert commands.sub("orders", "billing", 12, commands.SubscribeMode.ORDERED) == b"SUB_ORDERED orders billing 12\n"


def test_ids_go_as_they_came_though_they_hold_line_ends_and_spaces() -> None:
    raw = b"\x00\n \x00" * 4
    assert commands.fin(raw) == b"FIN " + raw + b"\n"
    assert commands.req(raw, 5) == b"REQ " + raw + b" 5\n"
    assert commands.touch(raw) == b"TOUCH " + raw + b"\n"


def test_a_traced_publish_has_the_trace_before_its_body() -> None:
    whole = commands.pub_trace("orders", 3, 2**64 - 1, b"abc")
    assert whole == b"PUB_TRACE orders 3\n\0\0\0\x0b" + b"\xff" * 8 + b"abc"
    assert commands.sub("orders", "billing", 3, commands.SubscribeMode.DETAILED) == b"SUB_ADVANCED orders billing 3\n"
