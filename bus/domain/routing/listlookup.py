"""The nsqlookupds of a cluster of the fork, and their leader: its ``/listlookup``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from bus.domain.routing.answers import Unreadable, opened

PATH: Final = "/listlookup"
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MOST_PORT: Final = 65_535


class _Node(msgspec.Struct):
    node_ip: str = msgspec.field(name="NodeIP", default="")
    http_port: str = msgspec.field(name="HttpPort", default="")

    @property
    def is_somewhere(self) -> bool:
        return bool(self.node_ip and _PORT.fullmatch(self.http_port)) and 0 < int(self.http_port) <= _MOST_PORT

    @property
    def address(self) -> str:
        host = f"[{self.node_ip}]" if ":" in self.node_ip else self.node_ip
        return f"{host}:{self.http_port}"


class _ListedDocument(msgspec.Struct):
    lookupdleader: _Node | None = None
    lookupdnodes: list[_Node] | None = None


class LookupAddresses(NamedTuple):
    """``HOST:PORT`` of all nsqlookupds, and of the one that leads; empty when none does."""

    addresses: tuple[str, ...]
    leader: str


def read_listed(content: bytes) -> LookupAddresses:
    """Read the answer; raises ``Unreadable``."""
    try:
        found = msgspec.convert(opened(content), _ListedDocument)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from error
    nodes = [node.address for node in found.lookupdnodes or [] if node.is_somewhere]
    leader = found.lookupdleader
    has_leader = leader is not None and leader.is_somewhere
    return LookupAddresses(tuple(nodes), leader.address if leader is not None and has_leader else "")


def listed_alone(host: str, port: int) -> dict[str, object]:
    """Return the answer of a proxy: itself, so that clients continue to ask it and not those behind it."""
    node = {"ID": f"{host}:{port}", "NodeIP": host, "TcpPort": "0", "HttpPort": str(port), "RpcPort": "0", "Epoch": 0}
    return {"lookupdleader": node, "lookupdnodes": [node]}
