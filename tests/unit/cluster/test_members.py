"""Processes find each other in the store, share permits, and notice who is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from bus.cluster.lease import Promise, Question
from bus.cluster.member import COLLECTION, HeldMessages
from bus.cluster.saved_views import SavedViews
from bus.domain.delivery.concurrency_shares import View
from bus.domain.times import DAY
from tests.unit.cluster.cluster_world import Process, World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.close()


async def both(world: World) -> tuple[Process, Process]:
    """Start two dispatchers, and wait until they share."""
    a, b = world.start("a"), world.start("b")
    await world.clock.until(lambda: world.shares() == [8, 8])
    return a, b


async def test_one_that_is_alone_has_all_permits_when_it_has_joined(world: World) -> None:
    a = world.add("a")
    await a.members.join()
    assert a.members.shares.of("orders/many", 16) == 16
    assert a.kept.kept == SavedViews((View(("a",)),))


async def test_one_that_does_not_deliver_takes_no_permits(world: World) -> None:
    a, b = world.start("a"), world.start("b", "receiver")
    await world.clock.advance(5)
    assert world.shares() == [16, 0]
    assert [member.owner for member in b.members.others] == ["a"]
    assert a.members.shares.view == View(("a",))


async def test_a_second_one_has_its_share_only_when_the_first_has_shrunk(world: World) -> None:
    a = world.start("a")
    await world.clock.advance(1)
    a.beyond = {"orders/many"}
    b = world.start("b")
    await world.clock.advance(10)
    assert a.members.shares.view == b.members.shares.view == View(("a", "b"), b.members.shares.view.rotation)
    assert world.shares() == [8, 0]
    a.beyond = ()
    await world.clock.advance(3)
    assert world.shares() == [8, 8]


async def test_a_hung_subscription_does_not_keep_the_others_from_their_permits(world: World) -> None:
    a = world.start("a")
    await world.clock.advance(1)
    a.beyond = {"orders/many"}
    world.start("b")
    await world.clock.advance(4)
    assert world.shares() == [8, 0]
    for _ in range(30):
        await world.clock.until(lambda: sum(world.shares("orders/one")) == 1, within=4)
        assert sum(world.shares("orders/five")) == 5
        await world.clock.advance(1)


async def test_permits_too_few_for_all_go_round(world: World) -> None:
    await both(world)
    had = set()
    for _ in range(30):
        had.add(tuple(world.shares("orders/one")))
        await world.clock.advance(1)
    assert {(1, 0), (0, 1)} <= had <= {(1, 0), (0, 1), (0, 0)}


async def test_no_turn_is_taken_while_a_dispatcher_cannot_agree(world: World) -> None:
    a, b = await both(world)
    b.reach.down = 1
    await world.clock.advance(6)
    view = a.members.shares.view
    await world.clock.advance(60)
    assert a.members.shares.bounds == (view,)
    assert sum(world.shares("orders/one")) == 1
    b.reach.down = 0
    await world.clock.until(lambda: a.members.shares.view.rotation > view.rotation and world.is_whole(), within=15)


async def test_one_that_leaves_gives_its_share_back_at_once(world: World) -> None:
    _, b = await both(world)
    await b.leave()
    assert list(await world.documents()) == ["a"]
    await world.clock.advance(2.5)
    assert world.shares() == [16, 0]


async def test_one_that_is_killed_is_gone_after_some_silence(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    await world.clock.advance(4)
    assert a.share() == 8
    await world.clock.advance(4)
    assert a.share() == 16
    assert a.members.others == []


async def test_one_that_is_silent_but_answers_keeps_its_share(world: World) -> None:
    a, b = await both(world)
    b.reach.down = True
    await world.clock.advance(60)
    assert world.shares() == [8, 8]
    assert set(a.probed) == {"b"}


async def test_a_dispatcher_that_is_kept_from_all_permits_says_what_by(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    c = world.start("c")
    a.probe = c.probe = lambda _: True  # as of one that answers and never comes to share
    await world.clock.advance(20)
    assert c.share() == 0
    assert c.members.trouble == ""
    c.held = {"orders/many": HeldMessages(3, 0)}
    await world.clock.advance(2)
    assert str(c.members.trouble).startswith("no permits for 2")
    assert str(c.members.trouble).endswith("not shared out yet by b (http://b, b)")
    assert a.members.trouble == ""
    a.probe = c.probe = lambda _: False
    await world.clock.until(lambda: world.is_whole() and c.members.trouble == "", within=20)


async def test_one_that_stood_still_and_was_missed_starts_nothing_until_it_shares_anew(world: World) -> None:
    a, b = await both(world)
    b.stop()
    await world.clock.advance(20)
    assert world.shares() == [16, 0]
    b.reach.delay = lambda: 0.5
    b.go_on()
    assert b.members.shares.of("orders/many", 16) == 8
    await world.clock.until(lambda: b.share() > 0, within=10)
    assert sum(world.shares()) <= 16
    assert a.share() == 8


@pytest.mark.parametrize("tenths", range(20))
async def test_one_that_stood_still_after_it_had_told_of_itself_starts_nothing_until_it_has_told_again(
    world: World, tenths: int
) -> None:
    """Whether it was missed meanwhile, what it wrote before does not tell."""
    a, b = await both(world)
    b.reach.delay = lambda: 0.3
    await world.clock.advance(3 + tenths / 10)
    b.stop()
    await world.clock.advance(20)
    assert a.share() == 16
    b.go_on()
    for _ in range(60):
        await world.clock.advance(0.1)
        assert sum(world.shares()) <= 16
    await world.clock.until(lambda: world.shares() == [8, 8], within=10)


async def test_one_that_stood_still_and_was_not_missed_goes_on(world: World) -> None:
    a, b = await both(world)
    b.stop()
    await world.clock.advance(3)
    b.go_on()
    await world.clock.advance(0.3)
    assert world.shares() == [8, 8]
    assert a.probed == []


async def test_one_that_stood_still_goes_on_with_its_share_when_the_store_is_away(world: World) -> None:
    _, b = await both(world)
    b.stop()
    b.reach.down = True
    await world.clock.advance(3)
    b.go_on()
    await world.clock.advance(1.5)
    assert b.share() == 8


async def test_listeners_hear_of_shares(world: World) -> None:
    heard: list[int] = []

    async def listener() -> None:
        heard.append(a.share())

    a = world.start("a")
    a.members.listen(listener)
    await world.clock.advance(1)
    heard.clear()
    world.start("b")
    await world.clock.until(lambda: heard == [8])


async def test_the_others_hear_of_a_smaller_share_only_once_the_workers_follow_it(world: World) -> None:
    a = world.start("a")
    await world.clock.advance(1)
    a.follows = lambda: False
    b = world.start("b")
    await world.clock.advance(10)
    assert a.members.shares.view == b.members.shares.view
    assert world.shares() == [8, 0], "its workers may still use what they had"
    a.follows = lambda: True
    await world.clock.until(lambda: world.shares() == [8, 8], within=3)


async def test_one_that_was_missed_starts_nothing_before_its_workers_follow(world: World) -> None:
    a, b = await both(world)
    b.stop()
    await world.clock.advance(20)
    assert a.share() == 16
    b.follows = lambda: False
    b.go_on()
    await world.clock.advance(5)
    assert not b.members.may_start
    b.follows = lambda: True
    await world.clock.until(lambda: b.members.may_start, within=1)
    await world.clock.until(world.is_whole, within=5)


async def test_the_processes_of_a_machine_have_one_share_together_and_no_turns(world: World) -> None:
    for owner in ("a", "b"):
        world.start(owner, group="a")
    await world.clock.until(lambda: world.shares("orders/one") == [1, 1], within=5)
    view = world.processes["a"].members.shares.view
    assert view.owners == ("a",)
    await world.clock.advance(60)
    assert world.processes["b"].members.shares.view == view
    c = world.start("c")
    await world.clock.until(lambda: world.shares() == [8, 8, 8], within=5)
    await c.leave()
    await world.clock.until(lambda: world.shares()[:2] == [16, 16], within=5)


async def test_one_of_a_machine_that_is_killed_leaves_its_share_to_the_others_at_once(world: World) -> None:
    a, b = (world.start(owner, group="a") for owner in ("a", "b"))
    await world.clock.until(lambda: world.shares() == [16, 16], within=5)
    await b.kill()
    for _ in range(80):
        await world.clock.advance(0.1)
        assert a.share() == 16


async def test_turns_go_on_while_any_process_of_the_first_machine_lives(world: World) -> None:
    a = world.start("a", group="a")
    world.start("b", group="a")
    world.start("c")
    await world.clock.until(world.is_whole, within=10)
    await a.kill()
    await world.clock.advance(10)
    rotation = world.processes["c"].members.shares.view.rotation
    await world.clock.until(lambda: world.processes["c"].members.shares.view.rotation > rotation, within=15)


async def test_one_of_an_older_version_shares_with_those_of_its_machine_by_itself(world: World) -> None:
    world.start("a", group="a")
    world.start("b")
    await world.clock.until(lambda: world.shares() == [8, 8], within=5)


async def test_a_process_that_is_back_between_the_question_and_the_burial_is_not_buried(world: World) -> None:
    """It would be without a document, and the others would use its permits."""
    a, b = await both(world)
    b.answers = False
    await b.kill()
    await world.clock.until(lambda: bool(a.probed), within=10)
    b.start()
    for _ in range(40):
        await world.clock.advance(0.1)
        assert sum(world.shares()) <= 16
        assert (await world.documents())["b"]
    assert world.shares() == [8, 8]


async def test_a_short_standstill_is_enough_to_be_missed_after_the_store_was_out_of_reach(world: World) -> None:
    a, b = await both(world)
    b.reach.down = True
    await world.clock.advance(8)
    assert world.shares() == [8, 8]
    b.stop()
    await world.clock.until(lambda: a.share() == 16, within=10)  # it has promised to leave b its share for 5 s
    b.reach.down = False
    b.reach.delay = lambda: 0.3
    b.go_on()
    assert b.share() == 0
    for _ in range(60):
        await world.clock.advance(0.1)
        assert sum(world.shares()) <= 16
    await world.clock.until(world.is_whole, within=5)


async def test_many_that_are_gone_are_asked_at_once(world: World) -> None:
    a = world.start("a")
    gone = [world.start(name, "receiver") for name in ("r1", "r2", "r3", "r4", "r5", "r6")]
    await world.clock.advance(2)
    for one in gone:
        await one.kill()
    await world.clock.advance(8)
    assert a.members.others == []


async def test_an_error_of_a_probe_or_a_description_does_not_end_the_process(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    a = world.start("a")
    await world.clock.advance(1)
    plain = a.members.describe
    a.members.describe = lambda _: 1 // 0  # type: ignore[assignment, return-value]
    await world.clock.advance(3)
    assert a.is_running
    assert "could not tell of itself" in caplog.text
    a.members.describe = plain
    a.revision = 7
    await world.clock.advance(2)
    assert b'"revision":7' in (await world.documents())["a"]


async def test_a_listener_that_fails_is_called_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    async def listener() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("once")

    a = world.start("a")
    a.members.listen(listener)
    await world.clock.advance(3)
    assert a.is_running
    assert len(calls) == 2
    assert "not in force everywhere" in caplog.text


async def test_a_slow_listener_does_not_make_a_process_silent(world: World) -> None:
    async def listener() -> None:
        await asyncio.Event().wait()

    a, b = world.start("a"), world.add("b")
    a.members.listen(listener)
    await world.clock.advance(1)
    b.start()
    await world.clock.advance(30)
    assert b.probed == []


async def test_without_a_store_a_start_takes_the_share_that_it_had_last(world: World) -> None:
    a, b = await both(world)
    a.reach.down = b.reach.down = 1
    await a.kill()
    await world.clock.advance(20)
    assert b.share() == 8, "a has ended, and takes nothing within the time of a lease if it starts"
    a.start()
    await world.clock.advance(1)
    assert world.shares() == [8, 8]
    world.cuts[frozenset("ab")] = 1
    await world.clock.advance(6)
    assert world.shares() == [0, 0], "the other one may have the store"
    a.reach.down = 0
    await world.clock.until(lambda: world.shares() == [16, 0], within=12)


@pytest.mark.parametrize("tenths", range(0, 21, 2))
async def test_a_dispatcher_that_starts_as_the_store_fails_keeps_no_other_from_its_share(
    world: World, tenths: int
) -> None:
    a = world.start("a")
    await world.clock.advance(4.3)
    b = world.start("b")
    await world.clock.advance(tenths / 10)
    a.reach.down = b.reach.down = 1
    for _ in range(20):
        await world.clock.advance(1)
        assert a.share() >= 8
        assert sum(world.shares()) <= 16


async def test_one_that_is_back_as_the_store_fails_keeps_no_other_from_its_share(world: World) -> None:
    a, b, c = (world.start(owner) for owner in "abc")
    await world.clock.until(world.is_whole, within=30)
    c.stop()
    await world.clock.until(lambda: a.share() + b.share() == 16, within=20)
    c.go_on()
    await world.clock.until(lambda: len(c.members.shares.bounds) > 1, within=2)
    for process in (a, b, c):
        process.reach.down = 1
    await world.clock.advance(20)
    assert world.shares() == [8, 8, 0]


@pytest.mark.parametrize("tenths", range(60, 96, 3))
async def test_one_that_was_declared_unreachable_as_the_store_failed_keeps_no_other_from_its_share(
    world: World, tenths: int
) -> None:
    a, b = await both(world)
    b.stop()
    await world.clock.advance(tenths / 10)
    b.go_on()
    a.reach.down = b.reach.down = 1
    for _ in range(20):
        await world.clock.advance(1)
        assert a.share() >= 8
        assert sum(world.shares()) <= 16


async def test_a_new_process_takes_over_from_a_host_that_was_lost(world: World) -> None:
    a = world.start("a")
    await world.clock.until(world.is_whole, within=10)
    world.cuts[frozenset("ab")] = 1
    await a.kill()
    b = world.start("b")
    await world.clock.until(lambda: b.share() == 16, within=10)


async def test_where_two_of_three_hosts_are_lost_the_third_takes_over_after_two_minutes(world: World) -> None:
    a, b, c = (world.start(owner) for owner in "abc")
    await world.clock.until(world.is_whole, within=30)
    for one, other in ("ab", "ac", "bc"):
        world.cuts[frozenset((one, other))] = 1
    share = a.share()
    await b.kill()
    await c.kill()
    await world.clock.advance(110)
    assert a.share() == share > 0
    await world.clock.until(lambda: a.share() == 16, within=25)


async def test_a_store_that_takes_no_writes_stops_nobody_who_is_alone(world: World) -> None:
    a = world.start("a")
    await world.clock.until(world.is_whole, within=10)
    await a.leave()
    a.reach.is_read_only = True
    a.start()
    await world.clock.advance(20)
    assert a.share() == 16


async def test_a_promise_is_made_by_the_process_that_was_asked_and_to_its_last_run(world: World) -> None:
    a, b = await both(world)
    asking, views = a.members.me.address(), a.members.shares.bounds
    assert b.members.promise(Question("b", asking, views)) == Promise(True, views)
    assert not b.members.promise(Question("c", asking, views)).is_promised
    former = msgspec.structs.replace(asking, started_at=asking.started_at - 1)
    assert not b.members.promise(Question("b", former, views)).is_promised
    assert not b.members.promise(Question("b", asking, (View(("a",)),))).is_promised


@pytest.mark.parametrize("kept", [SavedViews(()), SavedViews((View(("b", "c")),)), SavedViews((View(), View(("a",))))])
async def test_without_a_store_and_without_a_share_of_earlier_it_takes_all(world: World, kept: SavedViews) -> None:
    a = world.add("a")
    a.reach.down = 1
    await a.kept.write(kept)
    a.start()
    await world.clock.advance(1)
    assert a.share() == 16


async def test_shares_stay_while_the_store_is_away(world: World) -> None:
    a, b = await both(world)
    a.reach.down = b.reach.down = True
    await world.clock.advance(120)
    assert world.shares() == [8, 8]
    a.reach.down = b.reach.down = False
    await world.clock.until(world.is_whole, within=5)


async def test_a_write_without_an_answer_costs_no_permits(world: World) -> None:
    a, _ = await both(world)
    a.reach.loses_answer = lambda: True
    await world.clock.advance(10)
    a.reach.loses_answer = lambda: False
    for _ in range(20):
        await world.clock.advance(0.25)
        assert world.shares() == [8, 8]


async def test_a_wiped_store_has_them_share_anew_and_never_more_than_there_is(world: World) -> None:
    a, b = await both(world)
    b.reach.delay = lambda: 1.2  # it tells much later than the other
    await world.clock.advance(5)
    await world.wipe()
    for _ in range(100):
        await world.clock.advance(0.1)
        assert sum(world.shares()) <= 16
    await world.clock.until(lambda: world.shares() == [8, 8], within=10)
    assert a.members.shares.view == b.members.shares.view


async def test_who_was_there_before_the_wipe_and_is_gone_is_waited_for_no_longer_than_otherwise(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    await world.wipe()
    await world.clock.advance(9)
    assert a.share() == 16
    assert a.members.others == []


async def test_a_document_of_another_version_is_left_out_and_forgotten_when_silent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    a = world.start("a")
    for value in (b'{"owner": 1}', b"\xff"):
        await world.store.put(COLLECTION, "z", value)
        await world.clock.advance(3)
    assert a.share() == 16
    assert caplog.text.count("is of another version") == 1
    await world.clock.advance(610)
    assert list(await world.documents()) == ["a"]


async def test_what_was_readable_and_is_no_longer_is_left_out(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    await world.store.put(COLLECTION, "b", b"{}")
    await world.clock.advance(3)
    assert a.members.others == []


async def test_an_unreachable_process_is_listed_and_deleted_after_a_while(world: World) -> None:
    a, b = await both(world)
    last = world.clock.now()
    await b.kill()
    await world.clock.advance(10)
    (found,) = a.members.unreachable
    assert (found.owner, found.node, found.roles, found.records) == ("b", "b", ("dispatcher",), 0)
    assert abs(found.last_seen_at - last) <= 1000
    await world.clock.advance(620)
    assert list(await world.documents()) == ["a"]
    assert a.members.unreachable == []


async def test_an_unreachable_process_with_records_is_listed_until_it_is_swept(world: World) -> None:
    a, b = await both(world)
    b.records = 7
    await world.clock.advance(2)
    await b.kill()
    await world.clock.advance(3600)
    assert [one.records for one in a.members.unreachable] == [7]
    await a.members.forget({"a", "c"})
    await world.clock.advance(2)
    assert len(a.members.unreachable) == 1
    await a.members.forget({"b"})
    await world.clock.advance(2)
    assert (a.members.unreachable, list(await world.documents())) == ([], ["a"])


async def test_a_process_that_is_back_is_not_listed_as_unreachable(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    await world.clock.advance(10)
    assert len(a.members.unreachable) == 1
    b.start()
    await world.clock.advance(10)
    assert a.members.unreachable == []
    assert [one.owner for one in a.members.others] == ["b"]


async def test_a_restart_under_the_same_name_keeps_its_share(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    b.start()
    await world.clock.advance(1)
    assert world.shares() == [8, 8]
    assert a.members.shares.view == b.members.shares.view


async def test_confirmed_when_every_other_process_has_the_state(world: World) -> None:
    a, b = await both(world)
    asking = asyncio.create_task(a.members.confirmed(3, within=2))
    await world.clock.advance(0.5)
    assert not asking.done()
    b.revision = 3
    b.members.hurry()
    await world.clock.advance(0.5)
    assert asking.result() is True


async def test_one_that_has_joined_just_now_is_waited_for(world: World) -> None:
    a = world.start("a")
    await world.clock.advance(2)
    b = world.add("b")
    await b.members.join()
    asking = asyncio.create_task(a.members.confirmed(3, within=2))
    await world.clock.advance(0.5)
    assert not asking.done()
    b.revision = 3
    await b.members.step()
    await world.clock.advance(0.5)
    assert asking.result() is True


async def test_it_says_when_it_told_of_itself(world: World) -> None:
    a = world.start("a")
    await world.clock.advance(5)
    assert world.clock.monotonic() - a.members.told_at <= 1.5
    a.reach.down = True
    await world.clock.advance(5)
    assert world.clock.monotonic() - a.members.told_at >= 4


async def test_not_confirmed_when_somebody_does_not_say_so_in_time(world: World) -> None:
    a, b = await both(world)
    await b.kill()
    begun = world.clock.monotonic()
    asking = asyncio.create_task(a.members.confirmed(3, within=2))
    await world.clock.until(asking.done)
    assert asking.result() is False
    assert world.clock.monotonic() - begun <= 2.5
    a.reach.down = True
    assert await asyncio.wait_for(a.members.confirmed(0, within=2), 5) is True


async def test_a_process_tells_when_it_began_by_the_clock_of_now(world: World) -> None:
    world.clock.jump(DAY)
    one = world.start("one", "dispatcher")
    await world.clock.advance(10)
    world.clock.jump(-DAY)
    await world.clock.advance(10)
    me = one.members.me
    assert world.clock.now() - 21_000 <= me.since < me.started_at - DAY + 1_000


async def test_a_process_learns_that_its_clock_is_ahead_of_most_others(world: World) -> None:
    crowd = [*(await both(world)), world.start("c", "dispatcher")]
    await world.clock.advance(5)
    assert [one.members.too_fast for one in crowd] == [0, 0, 0]
    crowd[0].clock.ahead = 60_000
    await world.clock.advance(5)
    first, *others = [one.members.too_fast for one in crowd]
    assert 60_000 <= first <= 62_000
    assert others == [0, 0]
    crowd[0].clock.ahead = -60_000
    await world.clock.advance(10)
    assert [one.members.too_fast for one in crowd] == [0, 0, 0]
    first, *others = [one.members.too_slow for one in crowd]
    assert 58_000 <= first <= 60_000
    assert others == [0, 0]


async def test_a_clock_that_stays_too_far_ahead_is_a_trouble_of_those_who_are_behind(world: World) -> None:
    a, b = await both(world)
    assert (a.members.lead(), a.members.clocks) == (0, "")
    b.clock.ahead = 12_000
    await world.clock.advance(5)
    assert 10_000 < a.members.lead() == a.members.lead("dispatcher") <= 12_000  # what is told takes a while to be seen
    assert a.members.lead("compensator") == 0
    assert a.members.clocks == ""
    await world.clock.advance(10)
    assert "ahead of this process's on b (http://b) by 1" in str(a.members.clocks)
    assert (b.members.lead(), b.members.clocks) == (0, "")
    b.clock.ahead = 9_000
    await world.clock.advance(2)
    assert a.members.clocks == ""
