"""The judgement of a run: messages, orders, concurrency, keys and traces, and a cause for each repetition."""

from __future__ import annotations

import itertools
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import httpx
import msgspec

from tests.acceptance.attack.traces import lie_of
from tests.acceptance.hosts.faults import Fault
from tests.acceptance.hosts.producers import Answer, Producer, SdkProducer
from tests.acceptance.hosts.world import PLAIN_CODE, STRICT_CODE, SUBSCRIPTIONS, World
from tests.harness.checker import Span, cause_of
from tests.harness.records import Call
from tests.harness.waiting import wait_until

# Seconds for which a fault has effects after its end: leases, time-outs, and retries under way.
_AFTER: Final = 45.0
# Of a retry, with the time-outs of these subscriptions (docs/adr/0042-a-retry-has-one-owner.md).
_LEASE: Final = 36.0
_LEAST: Final = 30.0
# Of the time of a lease that faults have to cover, and seconds after each until the store is used again.
_MOST: Final = 0.8
_SETTLED: Final = 2.0
_OK: Final = 200
_EVERY: Final = 5
Producers = Sequence[Producer | SdkProducer]


class Findings(msgspec.Struct, kw_only=True):
    """What is to be reported of a run; ``complaints`` are broken promises.

    ``accept_p99_ms`` is of requests to receivers; ``slowest_by_fault`` has their p99 (ms) while a kind of fault
    lasted, and ``recovered_by_fault`` the seconds from its end until all that was accepted meanwhile was delivered.
    """

    accepted: int = 0
    delivered: int = 0
    unchecked: int = 0
    accept_p50_ms: float = 0.0
    accept_p99_ms: float = 0.0
    drained_in: float = 0.0
    slowest_by_fault: dict[str, float] = {}
    recovered_by_fault: dict[str, float] = {}
    incidents: int = 0
    repeated: dict[str, int] = {}
    at_once: dict[str, int] = {}
    complaints: list[str] = []


def judge(
    world: World, producers: Producers, faults: Sequence[tuple[Fault, float]], drained_in: float | None
) -> Findings:
    """Look at all that producers, subscribers and traces say.

    Parameters
    ----------
    faults
        Each with the time (seconds since the epoch) at which its schedule began.
    drained_in
        Seconds after the last fault in which all was delivered; None if it was not.
    """
    calls = world.subscriber.calls()
    answers = [answer for producer in producers for answer in producer.answers]
    # The SDK's are of a disk.
    posts = [answer for answer in answers if answer.id and answer.node]
    found = Findings(
        accepted=len({answer.id for answer in answers if answer.id}),
        delivered=len({call.id for call in calls if call.status == _OK}),
        unchecked=sum(answer.unchecked for answer in answers),
        accept_p50_ms=_milliseconds(posts, 50),
        accept_p99_ms=_milliseconds(posts, 99),
        slowest_by_fault=_slowest(posts, faults),
        recovered_by_fault=_recovered(answers, calls, faults),
        drained_in=round(drained_in or 0.0, 1),
        at_once={
            name: max((call.in_flight for call in calls if call.path == f"/{name}"), default=0)
            for _, name in SUBSCRIPTIONS
        },
    )
    if drained_in is None:
        found.complaints.append("not all was delivered in time")
    found.complaints += _lost(producers, calls) + _over(calls) + _misordered(calls) + _unlike(calls) + _keys(answers)
    traces = _Traces(world)
    found.complaints += _lies(traces, calls)
    found.repeated, uncaused = _repeated(traces, calls, faults)
    found.complaints += uncaused
    return found


def _milliseconds(answers: Sequence[Answer], percent: int) -> float:
    found = sorted(answer.seconds * 1000 for answer in answers)
    return round(found[len(found) * percent // 100], 1) if found else 0.0


def _slowest(posts: Sequence[Answer], faults: Sequence[tuple[Fault, float]]) -> dict[str, float]:
    during: defaultdict[str, list[Answer]] = defaultdict(list)
    for fault, at in faults:
        during[fault.name] += [one for one in posts if at + fault.begin <= one.began <= at + fault.end]
    return {name: _milliseconds(found, 99) for name, found in during.items()}


def _recovered(
    answers: Sequence[Answer], calls: Sequence[Call], faults: Sequence[tuple[Fault, float]]
) -> dict[str, float]:
    first: dict[tuple[str, str], float] = {}
    for call in calls:
        if call.status == _OK:
            first.setdefault((call.id, call.path), call.t)
    done: dict[str, float] = {}
    for (message_id, _), t in first.items():
        done[message_id] = max(t, done.get(message_id, 0.0))
    slowest: dict[str, float] = {}
    for fault, at in faults:
        during = [one.id for one in answers if one.id and at + fault.begin <= one.began <= at + fault.end]
        last = max((done[one] for one in during if one in done), default=0.0)
        slowest[fault.name] = round(max(slowest.get(fault.name, 0.0), last - at - fault.end), 1)
    return slowest


def missing(producers: Producers, calls: Iterable[Call]) -> set[tuple[str, str]]:
    """Return the accepted messages that a subscription has not got yet, each with the subscription's name.

    The SDK gives a message another id when a receiver refuses the time of the first one.
    """
    given = [call for call in calls if call.status == _OK]
    ids = {(call.id, call.path) for call in given}
    numbers = {(call.key, call.seq, call.path) for call in given}
    return {
        (answer.id, path)
        for producer in producers
        for path in [f"/{name}" for code, name in SUBSCRIPTIONS if code == producer.code]
        for answer in producer.answers
        if answer.id and (answer.id, path) not in ids
        if answer.node or (answer.key, answer.seq, path) not in numbers
    }


def _lost(producers: Producers, calls: Sequence[Call]) -> list[str]:
    lost = sorted(missing(producers, calls))
    sent = {answer.key for producer in producers for answer in producer.answers}
    strange = [call.id for call in calls if call.seq is None]
    found = [f"{len(lost)} lost: {lost[:5]}"] if lost else []
    return found + ([f"{len(strange)} that nobody sent: {strange[:5]}"] if strange or not sent else [])


def _over(calls: Sequence[Call]) -> list[str]:
    found = []
    for (_, name), settings in SUBSCRIPTIONS.items():
        most = settings["max_concurrency"]
        over = [call for call in calls if call.path == f"/{name}" and call.in_flight > most]
        if over:
            worst = max(call.in_flight for call in over)
            found.append(f"{name}: {worst} at once in {len(over)} requests of {most}, first at {over[0].t:.1f}")
    return found


def _misordered(calls: Sequence[Call]) -> list[str]:
    """Return first deliveries that came after later ones of their key, or in a strict order of their producer."""
    highest: dict[tuple[str, str], int] = {}
    wrong = []
    for call in _first_of_orders(calls):
        order = call.key.partition(".")[0] if call.destination == STRICT_CODE else call.key
        before = highest.get((call.path, order), -1)
        if call.seq is not None and call.seq < before:
            wrong.append(f"{call.path} {order}: {call.seq} after {before} at {call.t:.1f}, epoch {call.epoch}")
        highest[call.path, order] = max(call.seq or 0, before)
    return [f"{len(wrong)} out of order: {wrong[:5]}"] if wrong else []


def _unlike(calls: Sequence[Call]) -> list[str]:
    """Return a complaint if two subscribers of a strict order got it in two orders."""
    orders: defaultdict[str, list[str]] = defaultdict(list)
    for call in _first_of_orders(calls):
        if call.destination == STRICT_CODE:
            orders[call.path].append(call.id)
    if not orders:
        return []
    one, other = orders.values()
    both = set(one) & set(other)
    pairs = zip(*([id_ for id_ in ids if id_ in both] for ids in (one, other)), strict=True)
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    return [f"two orders of one destination: {wrong[:3]}"] if wrong else []


def _first_of_orders(calls: Sequence[Call]) -> Iterator[Call]:
    seen: set[tuple[str, str]] = set()
    for call in calls:
        if call.destination != PLAIN_CODE and call.status == _OK and (call.id, call.path) not in seen:
            seen.add((call.id, call.path))
            yield call


def _keys(answers: Sequence[Answer]) -> list[str]:
    """Return keys that were accepted twice although every answer was seen and none said ``unchecked``."""
    by_key: defaultdict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_key[answer.key].append(answer)
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for answer in answers:
        if answer.id:
            ids[answer.key].add(answer.id)
    twice = [key for key, known in ids.items() if "-" in key and len(known) > 1]
    silent = [
        key
        for key in twice
        if all(answer.status for answer in by_key[key]) and not any(answer.unchecked for answer in by_key[key])
    ]
    return [f"{len(silent)} keys accepted twice without a word: {silent[:5]}"] if silent else []


class _Traces:
    """The traces of all messages, each read once; ``statuses`` are those of their lists."""

    def __init__(self, world: World) -> None:
        self._admin = world.admins[0]
        self._known: dict[str, Any] = {}
        self.statuses = {code: self._read(partial(self._statuses_of, code)) for code in world.codes}

    def deliveries(self, message_id: str) -> list[dict[str, Any]]:
        if message_id not in self._known:
            self._known[message_id] = self._read(lambda: self._admin.trace(message_id)["deliveries"])
        return list(self._known[message_id])

    def _statuses_of(self, code: str) -> dict[str, str]:
        return {message["id"]: message["status"] for message in self._admin.messages(destination=code, limit=500)}

    def _read(self, ask: Callable[[], Any]) -> Any:
        """Return what the bus says; its store may be busy with what the run has left."""
        found: list[Any] = []

        def answers() -> bool:
            with suppress(httpx.HTTPError):
                found.append(ask())
            return bool(found)

        wait_until(answers, within=180, what="the store answers", every=1)
        return found[0]


def _lies(traces: _Traces, calls: Sequence[Call]) -> list[str]:
    given: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for call in calls:
        given[call.id, call.path.strip("/")][call.status] += 1
    done = {message_id for message_id, _ in given}
    statuses = ChainMap(*traces.statuses.values())
    lies = [f"{one}: {statuses.get(one, 'unknown')}" for one in done if statuses.get(one) != "delivered"]
    # Those that were delivered at once differ in nothing: some of them are enough.
    plain = {pair[0] for pair, answers in given.items() if answers == {_OK: 1}}
    plain -= {pair[0] for pair, answers in given.items() if answers != {_OK: 1}}
    for message_id in (*sorted(done - plain), *sorted(plain)[::_EVERY]):
        for delivery in traces.deliveries(message_id):
            lie = lie_of(delivery, given[message_id, delivery["subscription"]])
            if lie:
                lies.append(f"{message_id} for {delivery['subscription']}: {lie}")
    return [f"{len(lies)} false traces: {lies[:5]}"] if lies else []


def _repeated(
    traces: _Traces, calls: Sequence[Call], faults: Sequence[tuple[Fault, float]]
) -> tuple[dict[str, int], list[str]]:
    """Return how many repetitions each cause has, and a complaint for each that has none."""
    taken: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in calls:
        if call.status == _OK:
            taken[call.id, call.path.strip("/")].append(call)
    spans = [_span(fault, at) for fault, at in faults if _repeats(fault)]
    causes, uncaused = Counter[str](), []
    for (message_id, name), found in taken.items():
        if len(found) == 1:
            continue
        (delivery,) = [one for one in traces.deliveries(message_id) if one["subscription"] == name]
        unanswered = sum(not attempt["status_code"] for attempt in delivery["attempts"])
        causes["POST without an answer"] += min(unanswered, len(found) - 1)
        for first, second in list(itertools.pairwise(found))[unanswered:]:
            cause = cause_of(first.t, second.t, spans) or _unwritten(first.t, second.t, faults)
            if cause:
                causes[cause] += 1
            else:
                uncaused.append(f"{message_id} for {name}: {first.t:.1f} and {second.t:.1f}")
    return dict(causes), [f"{len(uncaused)} repeated without a cause: {uncaused[:5]}"] if uncaused else []


def _span(fault: Fault, at: float) -> Span:
    return Span(fault.name, at + fault.begin, at + fault.end, _AFTER)


def _repeats(fault: Fault) -> bool:
    """Whether a fault may have messages repeated; a store that is away for no longer than a lease may not."""
    if fault.place == "store":
        return fault.kind != "slow" and fault.end - fault.begin > _LEASE
    return fault.kind not in ("clock", "disk") and not fault.place.startswith("sdk")


def _unwritten(first: float, second: float, faults: Sequence[tuple[Fault, float]]) -> str:
    """Return a cause if faults one after the other kept an outcome from the store until the lease was over."""
    keeping = [(at + fault.begin, at + fault.end) for fault, at in faults if fault.place == "store" or fault.is_of_node]
    covered, until = 0.0, first
    for begin, end in sorted(keeping):
        last = min(end + _SETTLED, second)
        covered += max(0.0, last - max(begin, until))
        until = max(until, last)
    return "outcome kept from the store for a lease" if covered > _MOST * (second - first) > _MOST * _LEAST else ""
