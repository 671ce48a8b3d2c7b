"""One nsqlookupd of the cluster: its place among the others, what it was asked, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tests.doubles.youzan.httpd import Answer, HttpServer, Request
from tests.doubles.youzan.nsqd import HOST

FAULTS: Final = ("garbage", "half", "cut", "500")


class Lookupd:
    """Answers lookups over HTTP, late or badly when it is told to.

    Attributes
    ----------
    delay
        Seconds before each answer.
    fault
        One of FAULTS, None when it is well: ``garbage`` is no JSON, ``half`` is JSON that breaks off, ``cut`` is an
        answer that breaks off with the connection.
    journal
        What it was asked, oldest first.
    """

    def __init__(self, number: int, http: int, api: Callable[[Lookupd, Request], Answer]) -> None:
        self.number = number
        self.delay = 0.0
        self.fault: str | None = None
        self.journal: list[dict[str, Any]] = []
        self.server = HttpServer(self._answer, http)
        self._api = api

    @property
    def node(self) -> dict[str, Any]:
        """How lookups are told of it."""
        http = self.server.port
        return {
            "ID": f"{HOST}:{http + 1}:{http}:{self.number}",
            "NodeIP": HOST,
            "TcpPort": str(http + 1),
            "HttpPort": str(http),
            "RpcPort": str(http + 2),
            "Epoch": self.number,
        }

    async def _answer(self, request: Request) -> Answer:
        accept = request.headers.get("accept", "")
        asked = {"method": request.method, "path": request.path, "query": request.query, "accept": accept}
        self.journal.append(asked)
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.fault == "500":
            return Answer(500, b'{"message":"INTERNAL_ERROR"}')
        if self.fault == "garbage":
            return Answer(200, b"<html>a proxy that means well</html>")
        answer = self._api(self, request)
        half = len(answer.body) // 2
        if self.fault == "half":
            return Answer(answer.status, answer.body[:half], answer.headers)
        return Answer(answer.status, answer.body, answer.headers, cut=half if self.fault == "cut" else None)
