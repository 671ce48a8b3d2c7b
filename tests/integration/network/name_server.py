"""A name server on loopback, of a few names, silent for others."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Mapping, Sequence

A, AAAA, NXDOMAIN = 1, 28, 3


class NameServer(asyncio.DatagramProtocol):
    """Answers with the addresses of ``names``, that others do not exist, and nothing at all for those of ``silent``.

    ``asked`` has each name as often as it was asked for.
    """

    def __init__(self, names: Mapping[str, Sequence[str]], silent: Sequence[str] = ()) -> None:
        self.names = dict(names)
        self.silent = silent
        self.asked: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        end = data.index(b"\0", 12)
        name, (kind,) = _name_of(data[12:end]), struct.unpack(">H", data[end + 1 : end + 3])
        self.asked.append(name)
        if name.endswith(tuple(self.silent)) and self.silent:
            return
        packed = [ipaddress.ip_address(one).packed for one in self.names.get(name, ())]
        fitting = [one for one in packed if len(one) == {A: 4, AAAA: 16}.get(kind, 0)]
        answers = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(one)) + one for one in fitting)
        flags = 0x8180 | (0 if name in self.names else NXDOMAIN)
        head = data[:2] + struct.pack(">HHHHH", flags, 1, len(fitting), 0, 0)
        self._transport.sendto(head + data[12 : end + 5] + answers, addr)


def _name_of(labels: bytes) -> str:
    found, at = [], 0
    while at < len(labels):
        found.append(labels[at + 1 : at + 1 + labels[at]].decode())
        at += 1 + labels[at]
    return ".".join(found).lower()
