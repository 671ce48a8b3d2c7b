"""The bus's HTTP interface as tests use it, and what "drained" means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import Any

import httpx

from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until

UNFINISHED = ("pending", "retrying", "resend")
FINAL = frozenset({"delivered", "skipped", "canceled", "dead", "parked"})
PAGE = 200
_PUBLISHED = "bus_messages_published_total{"


class Admin:
    """Calls of the admin API and of the receiver; an error answer raises ``httpx.HTTPStatusError``."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30, **PLAIN)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def authorize(self, key: str) -> None:
        """Show a key with every call from now on."""
        self._http.headers["authorization"] = f"Bearer {key}"

    def call(self, verb: str, path: str, **options: Any) -> httpx.Response:
        """Call anything and return the answer, whatever its status."""
        return self._http.request(verb, path, **options)

    def destination(self, code: str, **fields: object) -> dict[str, Any]:
        """Make or change a destination."""
        return self._document("PUT", f"/api/v1/destinations/{code}", json={"code": code, **fields})

    def subscription(self, code: str, name: str, url: str, **fields: object) -> dict[str, Any]:
        """Make or change a subscription."""
        path = f"/api/v1/destinations/{code}/subscriptions/{name}"
        return self._document("PUT", path, json={"name": name, "url": url, **fields})

    def ordering(self, code: str) -> dict[str, Any]:
        """Return the chain of a strictly ordered destination."""
        return self._document("GET", f"/api/v1/destinations/{code}/ordering")

    def pause(self, code: str, name: str, *, paused: bool) -> None:
        """Pause or resume a subscription."""
        self._document("PATCH", f"/api/v1/destinations/{code}/subscriptions/{name}", json={"paused": paused})

    def send(self, code: str, body: bytes, **headers: str) -> httpx.Response:
        """POST one message to the receiver and return the answer, whatever its status."""
        given = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        return self._http.post(f"/v1/messages/{code}", content=body, headers=given)

    def trace(self, message_id: str) -> dict[str, Any]:
        """Return the life of a message."""
        return self._document("GET", f"/api/v1/messages/{message_id}")

    def body(self, message_id: str) -> bytes:
        """Return a message's body."""
        return self._http.get(f"/api/v1/messages/{message_id}/body").raise_for_status().content

    def metrics(self) -> str:
        """Return the Prometheus text."""
        return self._http.get("/metrics").raise_for_status().text

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        lines = [line for line in self.metrics().splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def backlogs(self) -> dict[str, int]:
        """Return how many messages wait, by the labels of the transport and the subscription."""
        lines = (line.rpartition(" ") for line in self.metrics().splitlines() if line.startswith("bus_broker_backlog{"))
        return {labels: int(float(count)) for labels, _, count in lines}

    def carried(self, transport: str) -> int:
        """Return how many messages a transport has confirmed since the bus was started."""
        lines = (line.rpartition(" ") for line in self.metrics().splitlines())
        wanted = f'result="confirmed",transport="{transport}"}}'
        counts = [count for labels, _, count in lines if labels.startswith(_PUBLISHED) and labels.endswith(wanted)]
        return sum(int(float(count)) for count in counts)

    def messages(self, **query: object) -> Iterator[dict[str, Any]]:
        """Yield every message of a search, page by page."""
        cursor: dict[str, object] = {}
        while True:
            page = self._document("GET", "/api/v1/messages", params={"limit": PAGE, **query, **cursor})
            yield from page["items"]
            if not page["next"]:
                return
            cursor = {"cursor": page["next"]}

    def statuses(self, destination: str) -> Counter[str]:
        """Return how many messages of a destination stand where."""
        return Counter(message["status"] for message in self.messages(destination=destination))

    def unfinished(self, destination: str) -> dict[str, Any] | None:
        """Return one message that is not final, None when there is none."""
        for status in UNFINISHED:
            query = {"destination": destination, "status": status, "limit": 1}
            items = self._document("GET", "/api/v1/messages", params=query)["items"]
            if items:
                return dict(items[0])
        return None

    def wait_drained(self, destination: str, ids: Collection[str], *, within: float) -> Counter[str]:
        """Wait until every message of ``ids`` is known and all of the destination are final; return the counts.

        One that the producer sent under another id, since the first one's time was impossible, is found by the first.

        Raises
        ------
        TooLate
            Something was left at the deadline, so that a checker must say ``unknown``.
        """
        found: dict[str, str] = {}
        renamed: set[str] = set()

        def drained() -> bool:
            try:
                if self.unfinished(destination):
                    return False
                found.update({message["id"]: message["status"] for message in self.messages(destination=destination)})
                missing = set(ids) - found.keys() - renamed
                renamed.update(takewhile(lambda one: self._is_renamed(destination, one), missing))
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    raise
                return False  # the store has not come back yet, or is too busy to be asked
            return missing <= renamed and FINAL.issuperset(found.values())

        what = f"{len(ids)} messages of {destination} known and final"
        wait_until(drained, within=within, what=what, every=0.3, state=lambda: self.statuses(destination))
        return Counter(found.values())

    def _is_renamed(self, destination: str, first_id: str) -> bool:
        query = {"destination": destination, "ref": first_id, "limit": 1}
        found = self._document("GET", "/api/v1/messages", params=query)["items"]
        # One that has come since the search is in the next one, with what is not final of it.
        return any(item["id"] != first_id and item["status"] in FINAL for item in found)

    def _document(self, verb: str, path: str, **options: Any) -> dict[str, Any]:
        answer = self._http.request(verb, path, **options)
        if answer.is_error:
            answer.read()
            raise httpx.HTTPStatusError(
                f"{verb} {path}: {answer.status_code} {answer.text}", request=answer.request, response=answer
            )
        return dict(answer.json())
