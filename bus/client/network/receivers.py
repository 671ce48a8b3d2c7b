"""The receiver that is configured, and those that it names for strictly ordered destinations."""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import urlsplit

from bus.client.fork_gate import GATE
from bus.client.network.http import Answer, Reason, ReceiverClient, Reply, Result
from bus.client.options import Options
from bus.client.spooling.batch import Batch
from bus.client.spooling.lanes import destination_of
from bus.domain.queue_report import QueueReport

_log = logging.getLogger("bus.client")
CONFIGURED: Final = ""
MOST: Final = 8
"""Connections that are kept."""
_SECONDS: Final = 10.0
_LONGEST: Final = 2048
_AWAY: Final = 503
_SOON: Final = 1
_HOPS: Final = 3
"""A leader that is none any more, the configured one, and the leader that it names."""


class Receivers:
    """Keeps a connection to each, and which destination's messages go where; for one thread.

    Since the API key goes there too, only what the configured receiver says is followed, and never from https to http.
    One that does not answer, or asks to wait, is forgotten, and the configured one is asked again. A target
    is the address of a receiver, or ``CONFIGURED``.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._clients: dict[str, ReceiverClient] = {}
        self._leaders: dict[str, str] = {}

    @property
    def has_leaders(self) -> bool:
        """Whether there are others than the one that is configured."""
        return bool(self._leaders)

    @property
    def targets(self) -> list[str]:
        """The receivers in use: the configured one, and the leaders that it named."""
        return [CONFIGURED, *dict.fromkeys(self._leaders.values())]

    def takes(self, target: str, lane: str) -> bool:
        """Whether a target is the receiver for a stream."""
        return self._leaders.get(destination_of(lane), CONFIGURED) == target

    def post(self, target: str, batch: Batch, queue: QueueReport | None = None) -> Reply:
        """Send a batch, with a report on its queue.

        When the request to a leader fails as a whole, each of its lines counts as refused for a moment.
        """
        reply = self.client(target).post(batch.lines, batch.heads, queue=queue)
        if target == CONFIGURED or reply.results is not None or (reply.splits and reply.status):
            return reply
        _log.warning("%s takes no messages (%s); %s is asked again", target, reply.failure, self._options.url)
        self.forget(target)
        reason = Reason(_AWAY, detail=reply.failure, retry_after=_SOON)
        return Reply([Result("rejected", head.id, reason) for head in batch.heads])

    def learn(self, target: str, batch: Batch, reply: Reply) -> set[str]:
        """Store the receivers that the reply names; return the streams that are sent to them from now on."""
        moved = set[str]()
        for record, result in zip(batch.records, reply.results or (), strict=False):
            if result.error is None:
                continue
            if target != CONFIGURED and result.error.status == _AWAY and result.error.retry_after:
                self._leaders.pop(destination_of(record.lane), None)
            elif target == CONFIGURED and self.may_follow(result.error.leader):
                self._leaders[destination_of(record.lane)] = result.error.leader
                moved.add(record.lane)
        return moved

    def ask(self, destination: str, method: str, path: str, content: bytes = b"") -> Answer:
        """Ask the receiver that sends to a destination, following leaders that are named; return the last answer."""
        for _ in range(_HOPS):
            target = self._leaders.get(destination, CONFIGURED)
            answer = self.client(target).ask(method, path, content)
            if answer.status not in (0, _AWAY):
                break
            if target != CONFIGURED:
                self.forget(target)
            elif self.may_follow(answer.reason.leader):
                self._leaders[destination] = answer.reason.leader
            else:
                break
        return answer

    def may_follow(self, url: str) -> bool:
        """Whether the API key may go to an address that the configured receiver has named."""
        try:
            given, own = urlsplit(url[:_LONGEST]), urlsplit(self._options.url)
        except ValueError:
            return False
        is_address = given.scheme in ("http", "https") and bool(given.hostname) and "@" not in given.netloc
        is_as_safe = given.scheme == "https" or own.scheme == "http"
        return is_address and is_as_safe and url.rstrip("/") != self._options.url.rstrip("/")

    def client(self, target: str) -> ReceiverClient:
        """Return the client of a target; the one that was unused for longest is closed when there are too many."""
        client = self._clients.pop(target, None) or self._connect(target)
        self._clients[target] = client
        if len(self._clients) > MOST:
            self._clients.pop(next(iter(self._clients))).close()
        return client

    def forget(self, target: str) -> None:
        """Remove a target."""
        self._leaders = {code: url for code, url in self._leaders.items() if url != target}
        if (client := self._clients.pop(target, None)) is not None:
            client.close()

    def close(self) -> None:
        """Give up all connections."""
        while self._clients:
            self._clients.popitem()[1].close()

    def _connect(self, target: str) -> ReceiverClient:
        options = self._options
        # A request that hangs here delays all other streams.
        timeout = options.timeout if target == CONFIGURED else min(options.timeout, _SECONDS)
        with GATE:  # an import that a fork cuts off can never be finished in the child
            return ReceiverClient(target or options.url, options.api_key, options.clock, timeout, options.transport)
