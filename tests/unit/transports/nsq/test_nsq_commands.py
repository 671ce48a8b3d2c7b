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
