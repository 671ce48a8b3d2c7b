"""Incidents: opened by what lasts, closed by what stays away, one for each cause, and never lost by a look in vain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.incidents import KEPT, Acknowledgement, Incident, Notification, Watch, advance, merged
from bus.domain.health.rulebook import Change, Rulebook
from bus.domain.times import MINUTE, SECOND
from bus.localized_text import localized

BOOK = Rulebook({"backlog": Change(hold=10 * SECOND, clear=20 * SECOND), "dead": Change(hold=0, clear=0)})
EVERY = 5 * SECOND


def alarm(name: str = "shop", rule: str = "backlog", cause: str = "c1", severity: Severity = Severity.WARNING) -> Alarm:
    what = localized("{rule} of {name}", rule=rule, name=name)
    return Alarm(rule, severity, what, localized("do"), "x", None, "orders", name, cause=cause)


def everything(_: str) -> bool:
    return True


class Looks:
    """Looks one after the other, five seconds apart."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.watch = Watch()
        self._ids = map(str, itertools.count(1))

    def __call__(
        self, *found: Alarm, known: Callable[[str], bool] = everything, after: int = EVERY
    ) -> Sequence[Incident]:
        self.now += after
        self.watch = advance(self.watch, found, known, BOOK, self.now, lambda: next(self._ids))
        return self.watch.open

    def many(self, count: int, *found: Alarm, **options: object) -> Sequence[Incident]:
        for _ in range(count):
            self(*found, **options)  # type: ignore[arg-type]
        return self.watch.open


def test_what_lasts_long_enough_is_an_incident_and_what_does_not_is_none() -> None:
    look = Looks()
    assert look(alarm()) == []
    assert look(alarm()) == []
    assert look() == []
    assert look.many(2, alarm()) == []
    (opened,) = look(alarm())
    assert (opened.opened_at, opened.cause, opened.severity) == (look.now, "c1", Severity.WARNING)
    assert opened.alarms["backlog:orders/shop"].found_at == look.now - 2 * EVERY


def test_one_that_goes_and_comes_stays_open_until_it_is_gone_for_long() -> None:
    look = Looks()
    look.many(3, alarm())
    for _ in range(5):
        assert look.many(3)
        assert look(alarm())
    assert look.many(4)
    assert look() == []
    (closed,) = look.watch.incidents.values()
    assert closed.closed_at == look.now
    assert closed.shown[0].gone_at == look.now - 4 * EVERY


def test_what_has_the_same_cause_joins_the_incident() -> None:
    look = Looks()
    look.many(3, alarm("a"))
    (opened,) = look.many(3, alarm("a"), alarm("b"), alarm("x", cause="c2"))[:1]
    assert set(opened.alarms) == {"backlog:orders/a", "backlog:orders/b"}
    assert len(look.watch.open) == 2
    assert [len(one.open_alarms) for one in look.many(5, alarm("b"))] == [1]


def test_an_alarm_keeps_its_incident_although_its_cause_is_told_otherwise_later() -> None:
    look = Looks()
    look.many(3, alarm())
    (still,) = look(alarm(cause="part:kafka"))
    assert still.cause == "c1"


def test_a_look_that_cannot_tell_changes_nothing() -> None:
    look = Looks()
    look.many(3, alarm())
    assert look.many(50, known=lambda _: False)
    assert look.many(4)
    assert not look()
    look.many(2, alarm())
    look.many(10, known=lambda _: False)
    assert look(alarm())


def test_what_was_pending_before_a_long_break_begins_anew() -> None:
    look = Looks()
    look(alarm())
    assert look(alarm(), after=3 * MINUTE) == []
    assert look(alarm()) == []
    assert look(alarm())


def test_an_incident_may_become_worse_and_better() -> None:
    look = Looks()
    look.many(3, alarm())
    (worse,) = look(alarm(severity=Severity.CRITICAL))
    assert worse.severity is Severity.CRITICAL
    (better,) = look(alarm())
    assert better.severity is Severity.WARNING


def test_a_rule_without_a_hold_is_told_at_once_and_over_at_once() -> None:
    look = Looks()
    assert look(alarm(rule="dead"))
    assert look() == []


def test_a_cause_that_comes_back_is_a_new_incident() -> None:
    look = Looks()
    look(alarm(rule="dead"))
    look()
    (again,) = look(alarm(rule="dead"))
    assert again.id == "2"
    assert len(look.watch.incidents) == 2


def test_a_thousand_alarms_of_one_cause_are_bounded_and_counted() -> None:
    look = Looks()
    found = [alarm(f"s{number}", rule="dead") for number in range(1000)]
    for _ in range(3):
        (opened,) = look(*found)
        assert (len(opened.alarms), opened.left_out) == (500, 500)
    look()
    (closed,) = look.watch.incidents.values()
    assert (len(closed.alarms), closed.left_out) == (50, 450)


def test_what_is_left_out_keeps_its_incident_open_and_takes_the_place_of_what_is_over() -> None:
    look = Looks()
    found = [alarm(f"s{number:03}") for number in range(600)]
    for _ in range(4):
        look(*found)
    for _ in range(3):
        (opened,) = look(*found)
        assert (len(opened.alarms), opened.left_out) == (500, 100)
    left = found[500:]
    look.many(5, *left)
    (opened,) = look.many(5, *left)
    assert (opened.id, len(opened.open_alarms), opened.left_out) == ("1", 100, 0)
    assert look.many(5) == []


def test_what_is_long_over_is_forgotten() -> None:
    look = Looks()
    look(alarm(rule="dead"))
    look()
    look(after=KEPT - EVERY)
    assert len(look.watch.incidents) == 1
    look()
    assert look.watch.incidents == {}


def test_of_two_copies_what_either_was_told_is_told() -> None:
    look = Looks()
    (one,) = look(alarm(rule="dead"))
    told = Notification(5, Severity.WARNING)
    first = msgspec.structs.replace(one, told={"a": told, "b": Notification(9, Severity.WARNING)}, owed={"c": 1})
    second = msgspec.structs.replace(
        one,
        told={"c": told, "b": Notification(7, Severity.WARNING, is_over=True)},
        owed={"a": 1, "d": 2},
        closed_at=look.now,
        acknowledged=Acknowledgement("eve", 3),
    )
    for found in (merged(first, second), merged(second, first)):
        assert found.told == {"a": told, "b": Notification(7, Severity.WARNING, is_over=True), "c": told}
        assert found.owed == {"d": 2}
        assert found.closed_at == look.now
        assert found.acknowledged == Acknowledgement("eve", 3)


def test_it_is_written_and_read_as_it_is() -> None:
    look = Looks()
    look.many(3, alarm(), alarm("b", rule="dead"))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(look.watch), type=Watch) == look.watch
    assert msgspec.json.decode(msgspec.json.encode(look.watch), type=Watch) == look.watch


NAMES = ("a", "b", "c")
LOOKS = st.lists(
    st.tuples(st.frozensets(st.sampled_from(NAMES)), st.booleans(), st.sampled_from([EVERY, 9 * SECOND, 4 * MINUTE])),
    max_size=40,
)


@given(LOOKS)
def test_whatever_is_seen_each_alarm_is_in_one_open_incident_at_most_and_none_comes_or_goes_early(
    looks: list[tuple[frozenset[str], bool, int]],
) -> None:
    look = Looks()
    seen: dict[str, int] = {}
    gone: dict[str, int] = {}
    before: set[str] = set()
    for names, known, after in looks:
        look(
            *(alarm(name, cause=f"c{name in 'ab'}") for name in names), known=lambda _, known=known: known, after=after
        )
        for name in NAMES:
            key = f"backlog:orders/{name}"
            if name in names:
                seen.setdefault(key, look.now)
                gone.pop(key, None)
            elif known:
                seen.pop(key, None)
                gone.setdefault(key, look.now)
        held = [key for one in look.watch.open for key, raised in one.alarms.items() if not raised.over_at]
        assert len(held) == len(set(held))
        causes = [one.cause for one in look.watch.open]
        assert len(causes) == len(set(causes))
        for key in set(held) - before:
            assert look.now - seen[key] >= BOOK["backlog"].hold
        for key in before - set(held):
            assert look.now - gone[key] >= BOOK["backlog"].clear
        for key in seen:
            assert key in held or key in look.watch.pending
        before = set(held)
