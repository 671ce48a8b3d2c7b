"""Sending one spool to the receiver: the choice of the next records, and the handling of each reply."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec

from bus.client.fork_gate import GATE
from bus.client.network.backoff import Backoff
from bus.client.network.http import Reason, Reply, Result
from bus.client.options import REQUEST_BYTES, REQUEST_LINES, WallAndMonotonic
from bus.client.sending.confirms import Confirms
from bus.client.sending.isolated_records import IsolatedRecord, IsolatedRecords
from bus.client.spooling.batch import Batch
from bus.client.spooling.home import id_of
from bus.client.spooling.lanes import CONSUMER, OUT, REJECTED, RejectedRecord, destination_of, encode_rejected
from bus.client.spooling.line import Head, decode_head, decode_line, encode_line
from bus.domain.identity import new_id
from bus.domain.queue_report import QueueReport
from bus.errors import SpoolError, SpoolFull
from bus.http.problem import is_kept_trying
from bus.ports.spool import NewRecord, Record, SpoolStats
from bus.spool import BlockingSpool

_log = logging.getLogger("bus.client")
_CHUNK: Final = 64
_UNREADABLE: Final = Reason(title="the record is not a line of a batch")
_FIRST_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_AWAY: Final = 503
_SHOWN: Final = 300
_REPORTED: Final = 1.0


class Sender:
    """Takes batches out of a spool and settles them by the receiver's replies; for one thread.

    Streams take turns, and each has a backoff of its own for records that the receiver refuses line by line (403, 429,
    5xx). A stream that was asked to wait sends at most twice as many records at once as were accepted, and twice that
    after each success. A record whose request fails as a whole although it holds nothing else is isolated, and the rest
    of its stream continues.

    Parameters
    ----------
    new_backoff
        Makes the backoff of a stream.
    confirms
        Gets the outcome of each message, where a caller may wait for it.
    source
        Source of the queue in reports to the receiver, where it is known.
    """

    def __init__(
        self,
        spool: BlockingSpool,
        clock: WallAndMonotonic,
        new_backoff: Callable[[], Backoff],
        confirms: Confirms | None = None,
        source: str = "",
    ) -> None:
        self.spool = spool
        self._clock = clock
        self._new_backoff = new_backoff
        self._confirms = confirms
        self._source = source
        self._lanes: dict[str, Backoff] = {}
        self._most: dict[str, int] = {}
        self._isolated = IsolatedRecords(new_backoff)
        self._alone: IsolatedRecord | None = None
        self._unsettled = False
        self._report: QueueReport | None = None
        self._reported_until = float("-inf")

    def gather(self, most: int = REQUEST_LINES, takes: Callable[[str], bool] = lambda _: True) -> Batch:
        """Claim as many records as fit into one request, from all due streams that ``takes`` accepts; may be empty.

        An isolated record that is due is a request of its own.
        """
        batch = Batch([], [])
        with GATE:
            self._alone = self._isolated.take(self._clock.monotonic(), takes)
            if self._alone is not None:
                self._add(batch, self._alone.record)
                return batch
            lanes = [lane for lane in self._due_lanes() if takes(lane)]
            share = max(1, most // len(lanes)) if lanes else 0
            room = REQUEST_BYTES
            for lane in lanes:
                room = self._fill(batch, lane, min(share, most - len(batch.records)), room)
            for lane in lanes:
                room = self._fill(batch, lane, most - len(batch.records), room)
        return batch

    def _due_lanes(self) -> list[str]:
        now = self._clock.monotonic()
        return [
            lane
            for lane in self.spool.lanes(CONSUMER)
            if lane.startswith(OUT) and (lane not in self._lanes or self._lanes[lane].due <= now)
        ]

    def _fill(self, batch: Batch, lane: str, most: int, room: int) -> int:
        """Add up to ``most`` records of a stream; return the bytes that are left."""
        if lane in self._most:
            most = min(most, self._most[lane] - sum(record.lane == lane for record in batch.records))
        while most > 0 and room > 0:
            claimed = self.spool.claim(CONSUMER, min(most, _CHUNK), lane)
            if not claimed:
                break
            before = len(batch.records)
            for index, record in enumerate(claimed):
                left = room - len(record.payload) - 1
                if left < 0 or not self._add(batch, record):
                    self.spool.release(CONSUMER, claimed[index:])
                    return 0 if left < 0 else room
                room = left
            most -= len(batch.records) - before
        return room

    def _add(self, batch: Batch, record: Record) -> bool:
        """Add a record, or settle it in another way; return False where it has to stay in its stream for now."""
        try:
            head = decode_head(record.payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._reject([(record, _UNREADABLE)])
            return True
        leader = self._isolated.leader_of(record, head.key)
        if leader is not None:
            return self._isolated.follow(leader, record)
        batch.records.append(record)
        batch.heads.append(head)
        return True

    def settle(self, batch: Batch, reply: Reply, moved: Collection[str] = ()) -> None:
        """Ack accepted records, set permanently rejected ones aside, and keep all others for a later attempt.

        Records of streams that have ``moved`` and that are refused for now are sent to another receiver at once.
        """
        with GATE:
            if reply.results is None:
                self._keep(batch, reply)
                return
            self._free_followers()
            taken, refused = self._apart(batch.records, reply.results, moved)
            self._pace(taken, refused)
            if taken:
                self._confirm(batch.heads, reply.results)
                self.spool.ack(CONSUMER, taken)
                self._unsettled = True
                for lane in {record.lane for record in taken}:
                    self._lanes.pop(lane, None)
            if refused:
                self._refuse(refused, reply)

    def _confirm(self, heads: Sequence[Head], results: Sequence[Result]) -> None:
        if self._confirms is not None and self._confirms.are_awaited:
            for head, result in zip(heads, results, strict=True):
                if result.is_taken and result.id:
                    self._confirms.taken(head.id, result.id)

    def _apart(
        self, records: list[Record], results: list[Result], moved: Collection[str]
    ) -> tuple[list[Record], list[tuple[Record, Reason]]]:
        """Return the accepted and the refused records; those for another receiver are gathered next."""
        taken, refused, elsewhere = [], [], []
        for record, result in zip(records, results, strict=True):
            reason = result.error or Reason(_FIRST_SERVER_ERROR, "no reason given")
            if result.is_taken:
                taken.append(record)
            elif record.lane in moved and reason.leader:
                elsewhere.append(record)
            else:
                refused.append((record, reason))
        if elsewhere:
            self.spool.release(CONSUMER, elsewhere)
        return taken, refused

    def _pace(self, taken: list[Record], refused: list[tuple[Record, Reason]]) -> None:
        """Limit the records of a stream that are sent at once to what the receiver accepts; others are sent in vain."""
        slowed = {record.lane for record, reason in refused if _is_asked_to_wait(reason)}
        count = Counter(record.lane for record in taken)
        for lane in slowed:
            self._most[lane] = max(1, 2 * count[lane])
        for lane in count.keys() & self._most.keys() - slowed:
            self._most[lane] *= 2
            if self._most[lane] >= REQUEST_LINES:
                del self._most[lane]

    def release(self, batch: Batch) -> None:
        """Return unsettled records to the spool; they are gathered next."""
        with GATE:
            self._free_followers()
            self.spool.release(CONSUMER, batch.records)

    def _keep(self, batch: Batch, reply: Reply) -> None:
        (only, *others) = batch.records
        is_cause = not others and reply.splits and reply.status and not reply.is_too_large
        if is_cause and self._isolate(only, batch.heads[0], reply):
            return
        self._free_followers()
        if is_cause:
            self._hold([only], reply.retry_after)
        elif not others and reply.is_too_large:
            self._reject([(only, Reason(reply.status, detail=reply.failure))])
        else:
            self.spool.release(CONSUMER, batch.records)

    def _isolate(self, record: Record, head: Head, reply: Reply) -> bool:
        """Isolate the record, unless it keeps the order of its whole stream; return whether there is space for it."""
        before, self._alone = self._alone, None
        backoff = None if head.producer else self._isolated.add(record, head, before)
        if backoff is None:
            self._alone = before
            return False
        backoff.fail(self._clock.monotonic(), reply.retry_after)
        if before is None:
            _log.warning("message %s to %s is sent alone: %s", head.id, head.destination, reply.failure)
        return True

    def _free_followers(self) -> None:
        if self._alone is not None and self._alone.followers:
            self.spool.release(CONSUMER, self._alone.followers)
        self._alone = None

    def _refuse(self, refused: list[tuple[Record, Reason]], reply: Reply) -> None:
        held, late, rejected = [], [], []
        for record, reason in refused:
            if reason.field == "id_time":
                late.append(record)
            elif is_kept_trying(reason.status):
                held.append((record, reason))
                _log.info("%s is not taken now (%s); kept", destination_of(record.lane), reason)
            else:
                rejected.append((record, reason))
        for reasons in _by_lane(held).values():
            wait = max(reason.retry_after for _, reason in reasons)
            self._hold([record for record, _ in reasons], wait or None)
        self._rename(late, reply.date or self._clock.now())
        self._reject(rejected)

    def _hold(self, records: list[Record], retry_after: float | None = None) -> None:
        self.spool.release(CONSUMER, records)
        for lane in {record.lane for record in records}:
            self._back_off(lane, retry_after)

    def _back_off(self, lane: str, retry_after: float | None = None) -> None:
        if lane not in self._lanes:
            self._lanes[lane] = self._new_backoff()
        self._lanes[lane].fail(self._clock.monotonic(), retry_after)

    def _rename(self, records: list[Record], now: int) -> None:
        """Give new ids to lines whose times were refused; a stream where that did not help backs off."""
        renamed, again = [], set()
        for record in records:
            line = decode_line(record.payload)
            if line.original_id:
                again.add(record.lane)
            fresh = msgspec.structs.replace(line, id=new_id(now), original_id=line.original_id or line.id)
            if self._confirms is not None:
                self._confirms.renamed(line.id, fresh.id)
            renamed.append(NewRecord(record.lane, encode_line(fresh), record.time))
        for lane in again:
            self._back_off(lane)
        if renamed:
            self._exchange(records, renamed)

    def _reject(self, refused: Sequence[tuple[Record, Reason]]) -> None:
        for start in range(0, len(refused), _CHUNK):
            chunk = refused[start : start + _CHUNK]
            records = [record for record, _ in chunk]
            if moved := self._exchange(records, [self._rejected(record, reason) for record, reason in chunk]):
                self._refuse_for_good(chunk)
                lane, reason = destination_of(records[0].lane), chunk[0][1]
                _log.error("%d message(s) to %s are refused for good, and kept: %s", moved, lane, reason)

    def _refuse_for_good(self, refused: Sequence[tuple[Record, Reason]]) -> None:
        for record, reason in refused:
            if self._confirms is not None and reason is not _UNREADABLE:
                self._confirms.refused(decode_head(record.payload), reason)

    def _rejected(self, record: Record, reason: Reason) -> NewRecord:
        said = str(reason)[:_SHOWN]
        payload = encode_rejected(RejectedRecord(record.payload, reason.status, said, self._clock.now()))
        return NewRecord(REJECTED, payload, record.time)

    def _exchange(self, done: list[Record], new: list[NewRecord]) -> int:
        """Ack records and append their replacements in one transaction; return how many were replaced.

        When the spool has no capacity for all of them, some are replaced; the rest stay and their streams back off.
        """
        try:
            self.spool.exchange(CONSUMER, done, new, urgent=True)
        except SpoolFull as error:
            if len(done) > 1:
                half = len(done) // 2
                return self._exchange(done[:half], new[:half]) + self._exchange(done[half:], new[half:])
            _log.error("%s", error)
            self._hold(done)
            return 0
        return len(done)

    def rest(self) -> None:
        """Make the acks durable, when nothing else will do that soon."""
        if self._unsettled:
            with GATE:
                self.spool.settle()
            self._unsettled = False

    def hurry(self) -> None:
        """Make streams that back off due now."""
        for backoff in (*self._lanes.values(), *self._isolated.backoffs()):
            backoff.hurry()

    def due(self) -> float | None:
        """Return the monotonic time of the next try of a stream or an isolated record; None when none is scheduled."""
        now = self._clock.monotonic()
        backoffs = (*self._lanes.values(), *self._isolated.backoffs())
        return min((backoff.due for backoff in backoffs if backoff.due > now), default=None)

    def lanes_ahead(self) -> set[str]:
        """Return the streams whose records precede those of a later process: all but isolated ones without a key."""
        free = self._isolated.free_lanes()
        consumers = self.stats().consumers
        return {one.lane for one in consumers if one.lane.startswith(OUT) and one.records > free[one.lane]}

    def report(self) -> QueueReport | None:
        """Return the report on the queue for the receiver, at most a second old; None when the disk cannot be read."""
        now = self._clock.monotonic()
        if now >= self._reported_until:
            self._reported_until = now + _REPORTED
            self._report = self._reported()
        return self._report

    def _reported(self) -> QueueReport | None:
        number = id_of(self.spool.directory)
        try:
            stats = self.stats()
        except SpoolError:
            return None
        now = self._clock.now()
        age = max(0, now - min((at for at in oldest(stats) if at is not None), default=now))
        return QueueReport(waiting(stats), age, number, self._source) if number else None

    def stats(self) -> SpoolStats:
        """Return the spool's counts."""
        with GATE:
            return self.spool.stats()


def waiting_lanes(stats: SpoolStats) -> set[str]:
    """Return the streams that have records queued to be sent."""
    return {consumer.lane for consumer in stats.consumers if consumer.lane.startswith(OUT) and consumer.records}


def waiting(stats: SpoolStats) -> int:
    """Return the number of records queued to be sent."""
    return sum(consumer.records for consumer in stats.consumers if consumer.lane.startswith(OUT))


def rejected(stats: SpoolStats) -> int:
    """Return the number of records that were rejected permanently."""
    return sum(consumer.records for consumer in stats.consumers if consumer.lane == REJECTED)


def oldest(stats: SpoolStats) -> Iterator[int | None]:
    """Return the time of the oldest record of each stream with queued records; None where it is not known."""
    for consumer in stats.consumers:
        if consumer.lane.startswith(OUT) and consumer.records:
            yield consumer.oldest


def _by_lane(refused: list[tuple[Record, Reason]]) -> dict[str, list[tuple[Record, Reason]]]:
    found: dict[str, list[tuple[Record, Reason]]] = {}
    for record, reason in refused:
        found.setdefault(record.lane, []).append((record, reason))
    return found


def _is_asked_to_wait(reason: Reason) -> bool:
    return reason.status == _TOO_MANY or (reason.status == _AWAY and reason.retry_after > 0)
