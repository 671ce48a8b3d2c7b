"""The window of a partition, against a model; and the metadata of its commits, whatever the pattern."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bus.transports.kafka.commits import (
    ANYWHERE,
    METADATA_BYTES,
    Commit,
    Window,
    decode_commit,
    encode_commit,
)
from bus.transports.kafka.config import KafkaConfig

LIMIT = 40
offsets = st.integers(0, 2**40)
topics = st.sampled_from(["", "QcDqoTJmSw-cQEDqCqyKkw"])
done_sets = st.sets(st.integers(0, 200)).map(lambda places: sum(1 << place for place in places))


@given(st.builds(Commit, offset=offsets, reach=st.integers(0, ANYWHERE), floor=offsets, done=done_sets, topic=topics))
def test_metadata_says_what_it_was_given(commit: Commit) -> None:
    text = encode_commit(commit)
    assert text.isascii()
    assert len(text) <= METADATA_BYTES
    assert decode_commit(commit.offset, text) == commit


@given(st.integers(0, KafkaConfig(bootstrap=("x:1",)).window // 8).flatmap(lambda n: st.binary(min_size=n, max_size=n)))
def test_every_pattern_of_a_whole_window_fits(bitmap: bytes) -> None:
    commit = Commit(2**62, ANYWHERE, 2**42, int.from_bytes(bitmap, "little"), "QcDqoTJmSw-cQEDqCqyKkw")
    assert decode_commit(commit.offset, encode_commit(commit)) == commit


@given(st.binary(min_size=9000, max_size=9000), st.integers(64, METADATA_BYTES))
def test_what_does_not_fit_is_cut_at_the_far_end(bitmap: bytes, limit: int) -> None:
    commit = Commit(7, 100, 5, int.from_bytes(bitmap, "little"))
    text = encode_commit(commit, limit=limit)
    assert len(text) <= limit
    found = decode_commit(7, text)
    assert found[:3] == commit[:3]
    assert found.done == commit.done & ((1 << found.done.bit_length()) - 1), "a prefix of what is finished"


@pytest.mark.parametrize(
    "metadata",
    ["", "by hand", "2  0 0 ", "1  x 0 ", "1  0 0 !", "1  0 0 AAAA", "1  0 0 " + "A" * 4000, "1   0 0 ", "1 0 0 "],
)
def test_metadata_of_others_says_that_anything_may_have_been_handed_out(metadata: str) -> None:
    assert decode_commit(42, metadata) == Commit(42, reach=ANYWHERE)


def test_a_bitmap_that_unpacks_to_very_much_is_cut() -> None:
    bomb = encode_commit(Commit(0, 0, 0, (1 << 8 * 3_000_000) - 1), limit=10_000)
    assert decode_commit(0, bomb).done.bit_length() <= 8 * 1_048_576


def test_a_commit_knows_what_is_finished_beyond_it() -> None:
    commit = Commit(10, done=0b101)
    assert [offset for offset in range(8, 16) if commit.is_done(offset)] == [10, 12]


def test_the_floor_is_the_oldest_that_is_unfinished() -> None:
    window = Window(Commit(0, floor=7), LIMIT, 0)
    assert window.commit().floor == 7, "nothing was read, so nothing new is known"
    for offset, received_at in enumerate((100, 90, 110)):
        window.admit(offset, received_at, published_at=received_at + 5)
    assert window.commit().floor == 90
    window.finish(1)
    assert window.commit().floor == 100
    window.finish(0)
    window.finish(2)
    assert window.commit().floor == 110, "what follows was published later, and none waited longer than 5 ms"


def test_the_floor_allows_for_records_that_waited_long_before_they_were_published() -> None:
    window = Window(Commit(0), LIMIT, 0)
    window.admit(0, received_at=1000, published_at=61_000)
    window.finish(0)
    window.admit(1, received_at=61_900, published_at=62_000)
    window.finish(1)
    assert window.commit().floor == 2000


def test_an_owner_that_leaves_says_how_far_it_got() -> None:
    window = Window(Commit(0, reach=0), LIMIT, 0)
    for offset in range(10):
        window.admit(offset, 1, 1)
    for offset in (0, 1, 5):
        window.finish(offset)
    assert window.commit().reach == LIMIT, "it may hand out more at any time"
    assert window.last_commit(handed_out=8) == Commit(2, reach=6, floor=1, done=0b1000)
    assert window.last_commit(handed_out=0).reach == 0


def test_doubt_about_an_earlier_owner_is_handed_on() -> None:
    window = Window(Commit(0, reach=30), LIMIT, end=25)
    assert [window.is_suspect(offset) for offset in (0, 24, 25)] == [True, True, False]
    for offset in range(10):
        window.admit(offset, 1, 1)
        window.finish(offset)
    assert window.last_commit(handed_out=10).reach == 15
    assert Window(Commit(0, reach=30), 20, end=1000).ownership().reach == 30


def test_gaps_of_the_log_count_as_finished() -> None:
    window = Window(Commit(0), LIMIT, 0)
    window.admit(3, 1, 1)
    window.admit(7, 1, 1)
    assert window.commit().offset == 3
    window.finish(3)
    assert window.commit().offset == 7


class WindowMachine(RuleBasedStateMachine):
    """Owners that read a log with gaps, finish in any order, commit, die and leave; beside a model."""

    @initialize(start=st.integers(0, 1000), lost=st.booleans())
    def begin(self, start: int, lost: bool) -> None:
        self.log: list[int] = []  # offsets that exist
        self.end = start
        self.finished: set[int] = set()  # by anybody, at any time
        self.remembered: set[int] = set()  # finished, as far as a commit that Kafka has can say
        self.seen: set[int] = set()  # handed to a subscriber by an owner that is gone
        self.committed = Commit(start, ANYWHERE if lost else 0)
        self.text = encode_commit(self.committed)
        self.publish(20, 0)
        self.own()

    def own(self) -> None:
        self.window = Window(decode_commit(self.committed.offset, self.text), LIMIT, self.end)
        self.store(self.window.ownership())
        self.open: set[int] = set()
        self.handed: set[int] = set()

    def store(self, commit: Commit) -> None:
        self.committed, self.text = commit, encode_commit(commit)
        self.window.confirm(commit)
        self.remembered = {o for o in self.log if o < commit.offset or commit.is_done(o)}

    @rule(count=st.integers(1, 30), gap=st.sampled_from([0, 0, 0, 1, 3]))
    def publish(self, count: int, gap: int) -> None:
        first = self.end + gap
        self.log += range(first, first + count)
        self.end = first + count

    def fetch(self, count: int) -> None:
        ahead = [offset for offset in self.log if offset >= self.window.next][:count]
        for offset in ahead:
            if offset >= self.window.closes_at:
                break
            admitted = self.window.admit(offset, received_at=offset, published_at=offset)
            assert admitted == (offset not in self.remembered), "what a commit remembers is skipped, nothing else"
            if admitted:
                self.open.add(offset)

    @rule(fetched=st.integers(1, 30), finished=st.lists(st.booleans(), max_size=30))
    def work(self, fetched: int, finished: list[bool]) -> None:
        """Fetch, and hand out as many as there are flags, each finished at once or left open."""
        self.fetch(fetched)
        for offset, done in zip(sorted(self.open - self.handed), finished, strict=False):
            if offset in self.seen:
                assert self.window.is_suspect(offset), "an earlier owner handed it out"
            self.handed.add(offset)
            if done:
                self.finish(offset)

    @precondition(lambda self: self.handed & self.open)
    @rule(data=st.data())
    def finish_any(self, data: st.DataObject) -> None:
        self.finish(data.draw(st.sampled_from(sorted(self.handed & self.open))))

    def finish(self, offset: int) -> None:
        assert self.window.finish(offset)
        assert not self.window.finish(offset)
        self.open.discard(offset)
        self.finished.add(offset)

    @precondition(lambda self: self.handed)
    @rule(arrives=st.booleans(), heard=st.booleans())
    def commit(self, arrives: bool, heard: bool) -> None:
        commit = self.window.commit()
        if arrives:
            self.committed, self.text = commit, encode_commit(commit)
            self.remembered = {o for o in self.log if o < commit.offset or commit.is_done(o)}
            if heard:
                self.window.confirm(commit)

    @precondition(lambda self: self.handed)
    @rule()
    def die(self) -> None:
        self.seen |= self.handed
        self.own()

    @precondition(lambda self: self.handed)
    @rule()
    def leave(self) -> None:
        handed = max((offset + 1 for offset in self.handed & self.open), default=0)
        self.store(self.window.last_commit(handed))
        self.seen |= self.handed
        self.own()

    @invariant()
    def commits_are_within_what_is_finished(self) -> None:
        for commit in (self.committed, self.window.commit(), self.window.last_commit(0)):
            unfinished = [offset for offset in self.log if offset not in self.finished]
            assert all(offset >= commit.offset for offset in unfinished), "beyond the contiguous prefix"
            assert not any(commit.is_done(offset) for offset in unfinished)

    @invariant()
    def nothing_that_was_remembered_is_forgotten(self) -> None:
        for commit in (self.window.commit(), self.window.last_commit(0)):
            assert all(offset < commit.offset or commit.is_done(offset) for offset in self.remembered)

    @invariant()
    def nobody_reads_further_than_the_window(self) -> None:
        assert all(offset < self.committed.offset + LIMIT for offset in self.handed & self.open)


TestWindow = WindowMachine.TestCase
