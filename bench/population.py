"""Messages as a busy store holds them: 20 destinations, 60 subscriptions, three days, and what fails."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from bus.domain.delivery.delivery import Attempt, Origin, Outcome, Status
from bus.domain.identity import new_id
from bus.domain.message import Message, encode_message
from bus.domain.times import DAY

DAYS: Final = 3
SUBSCRIPTIONS: Final = ("billing", "mail", "search-index")
DESTINATIONS: Final = tuple(
    f"{domain}.{event}"
    for domain in ("order", "payment", "stock", "user", "invoice")
    for event in ("created", "changed", "cancelled", "closed")
)
SOURCES: Final = ("shop", "checkout", "warehouse", "crm", "importer", "mobile")
TENANTS: Final = 200
CUSTOMERS: Final = 20_000
_HOUR: Final = 3_600_000
# Of 1,000 deliveries: how many end otherwise than delivered at the first attempt, and with which answer.
_FATES: Final = (
    (4, Status.DEAD, 503, "HTTP 503"),
    (3, Status.DEAD, 404, "HTTP 404"),
    (2, Status.DEAD, None, "read timed out after 10 s"),
    (4, Status.RETRYING, 502, "HTTP 502"),
    (2, Status.RETRYING, None, "connection refused by 127.0.0.1:9000"),
    (1, Status.PARKED, 410, "HTTP 410"),
    (9, Status.SKIPPED, None, "the filter does not take it"),
    (20, Status.DELIVERED, 500, "HTTP 500"),
)
_OF: Final = 1000


class Sent(NamedTuple):
    """A message and what became of it."""

    message: Message
    outcomes: list[Outcome]


class Population:
    """The same messages for the same seed; ``end`` (ms) is when the last one was sent."""

    def __init__(self, count: int, end: int, seed: int = 1) -> None:
        self.count = count
        self.end = end
        self._seed = seed

    def __iter__(self) -> Iterator[Sent]:
        """Give the messages, the oldest first."""
        noise = random.Random(self._seed)
        for number in range(self.count):
            yield self._sent(number, noise)

    def batches(self, size: int) -> Iterator[list[Sent]]:
        """Give the messages in batches."""
        batch: list[Sent] = []
        for sent in self:
            batch.append(sent)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch

    def _sent(self, number: int, noise: random.Random) -> Sent:
        at = self.end - DAYS * DAY + (number + 1) * DAYS * DAY // self.count
        customer = int(noise.random() ** 2 * CUSTOMERS)
        traced = number % 2 == 0
        message = Message(
            id=new_id(at, noise.randbytes(10)),
            destination=DESTINATIONS[int(noise.random() ** 2 * len(DESTINATIONS))],
            body=_body(number, customer, noise),
            content_type="application/json",
            sent_at=at,
            received_at=at + 2,
            source=noise.choice(SOURCES),
            biz_id=f"order-{number}",
            key=f"customer-{customer}" if number % 3 == 0 else "",
            headers={"x-tenant": f"t{noise.randrange(TENANTS)}"},
            traceparent=f"00-{noise.getrandbits(128):032x}-{noise.getrandbits(64):016x}-01" if traced else "",
            expected=SUBSCRIPTIONS,
        )
        return Sent(message, [one for name in SUBSCRIPTIONS for one in self._outcomes(message, name, noise)])

    def _outcomes(self, message: Message, subscription: str, noise: random.Random) -> list[Outcome]:
        drawn = noise.randrange(_OF)
        for share, status, code, reason in _FATES:
            if drawn < share:
                return self._otherwise(message, subscription, status, code, reason, tries=1 + drawn % 4)
            drawn -= share
        return [self._outcome(message, subscription, 1, Status.DELIVERED, 200, "")]

    def _otherwise(
        self, message: Message, subscription: str, status: Status, code: int | None, reason: str, *, tries: int
    ) -> list[Outcome]:
        if status is Status.SKIPPED:
            skipped = self._outcome(message, subscription, 0, status, None, reason)
            return [msgspec.structs.replace(skipped, attempt=None)]
        failed = [self._outcome(message, subscription, n, Status.RETRYING, code, reason) for n in range(1, tries + 1)]
        if status is Status.RETRYING:
            return failed
        if status is Status.DELIVERED:
            return [*failed, self._outcome(message, subscription, tries + 1, status, 200, "")]
        return [*failed, self._outcome(message, subscription, tries + 1, status, code, reason)]

    def _outcome(
        self, message: Message, subscription: str, n: int, status: Status, code: int | None, reason: str
    ) -> Outcome:
        at = message.received_at + n * 5_000
        answer = b"" if code in (None, 200) else b"upstream said no"
        phases = (None, 0.2, None, 0.1, 2.2, 0.2)
        name = f"{message.id}.{subscription}.{n}"
        error = reason if code is None else ""
        unfinished = status is Status.RETRYING
        return Outcome(
            message_id=message.id,
            destination=message.destination,
            subscription=subscription,
            retention_days=message.retention_days,
            url=url_of(subscription),
            status=status,
            generation=0,
            at=at,
            reason=reason,
            attempt=Attempt(
                name, n, Origin.TRANSPORT if n == 1 else Origin.RETRY, at - 3, 2.7, phases, code, error, answer, "n1"
            ),
            due_at=self.end + 12 * _HOUR if unfinished else 0,
            attempts=n,
            tries=n,
            since=message.received_at,
            message=encode_message(message) if unfinished else b"",
        )


def url_of(subscription: str) -> str:
    """Return where a subscription's messages go: no server listens there."""
    return f"http://127.0.0.1:9/{subscription}"


def writes_of(batch: Sequence[Sent]) -> list[Message | Outcome]:
    """Return what a store is to write: all messages, then what became of them."""
    messages: list[Message | Outcome] = [sent.message for sent in batch]
    return messages + [outcome for sent in batch for outcome in sent.outcomes]


def _body(number: int, customer: int, noise: random.Random) -> bytes:
    lines = [
        {
            "sku": f"SKU-{noise.randrange(5_000):04d}",
            "count": noise.randrange(1, 9),
            "price": noise.randrange(10_000) / 100,
        }
        for _ in range(1 + number % 6)
    ]
    note = f"please ring twice {noise.getrandbits(40):010x}"
    order = {"id": number, "customer": customer, "lines": lines, "note": note, "tags": ["web", "gift"][: number % 3]}
    return msgspec.json.encode({"order": order, "version": 2})
