"""A name is accepted once by all who share the file of claims; what is not known there, the store is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from bus.errors import StoreError
from bus.ports.claims import ClaimResult
from bus.stores.sqlite import claims as module
from bus.stores.sqlite.claims import NAME, SharedClaims

NOW = 1_800_000_000_000
Open = Callable[[str], SharedClaims]


def an_id(time: int = NOW + 1) -> bytes:
    return time.to_bytes(6) + os.urandom(10)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    made: list[SharedClaims] = []

    def open_claims(owner: str) -> SharedClaims:
        made.append(SharedClaims(tmp_path, owner, NOW))
        return made[-1]

    yield open_claims
    for claims in made:
        claims.close()


def test_a_name_is_one_callers_until_it_is_settled(opened: Open) -> None:
    here, there, name = opened("a"), opened("b"), an_id()
    assert here.claim([name], ()) == ClaimResult({})
    assert set(there.claim([name], ()).storing) == {name}
    assert here.claim([name], ()).storing == {name}
    here.settle({name: b"said"}, ())
    assert there.claim([name], ()).known == {name: b"said"}


def test_nothing_is_claimed_while_one_of_the_names_is_another_callers(opened: Open) -> None:
    here, there, first, second = opened("a"), opened("b"), an_id(), an_id()
    here.claim([first], ())
    assert there.claim([first, second], ()).storing == {first}
    assert not here.claim([second], ()).storing


def test_what_was_refused_is_claimed_once_the_store_was_asked(opened: Open) -> None:
    here, there, name = opened("a"), opened("b"), an_id()
    here.claim([name], ())
    here.settle({}, [name])
    assert there.claim([name], ()).doubtful == {name}
    assert there.claim([name], {name}) == ClaimResult({})
    assert here.claim([name], ()).storing == {name}


def test_what_a_process_that_died_was_storing_is_settled_once_it_has_looked_at_its_disk(opened: Open) -> None:
    here, there = opened("a"), opened("b")
    kept, lost, unseen = an_id(), an_id(), an_id()
    here.claim([kept, lost], ())
    here.close()
    back = opened("a")
    assert set(there.claim([kept, lost], ()).storing) == {kept, lost}
    back.recover({kept: b"said", unseen: b"said"})
    assert there.claim([kept, lost, unseen], ()) == ClaimResult({kept: b"said", unseen: b"said"}, {lost}, set())


def test_what_another_process_has_accepted_since_stays_as_it_said(opened: Open) -> None:
    here, there, name = opened("a"), opened("b"), an_id()
    there.claim([name], ())
    there.settle({name: b"there"}, ())
    here.recover({name: b"here"})
    assert here.claim([name], ()).known == {name: b"there"}


def test_of_a_process_that_does_not_come_back_another_one_settles_it(tmp_path: Path, opened: Open) -> None:
    name = an_id()
    opened("gone").claim([name], ())
    with closing(SharedClaims(tmp_path, "a", NOW, ["gone"])) as heir:
        heir.recover({})
        assert heir.claim([name], ()).doubtful == {name}


def test_what_an_earlier_life_left_is_settled_once_the_file_is_free(tmp_path: Path, opened: Open) -> None:
    here, there, name = opened("a"), opened("b"), an_id()
    here.claim([name], ())
    with closing(apsw.Connection(str(tmp_path / NAME))) as another:
        another.execute("BEGIN IMMEDIATE")
        here.recover({name: b"said"})
        assert there.claim([name], ()) == ClaimResult({}, storing=[name], is_locked=True)
        another.execute("ROLLBACK")
    here.claim([an_id()], ())
    assert there.claim([name], ()).known == {name: b"said"}


def test_of_what_is_too_much_to_be_settled_later_the_store_is_asked(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_UNSETTLED", 2)
    here, there = opened("a"), opened("b")
    names = [an_id() for _ in range(3)]
    here.claim(names, ())
    with closing(apsw.Connection(str(tmp_path / NAME))) as another:
        another.execute("BEGIN IMMEDIATE")
        here.settle(dict.fromkeys(names, b"said"), ())
        another.execute("ROLLBACK")
    here.claim([an_id()], ())
    claimed = there.claim(names, ())
    assert (set(claimed.known), claimed.doubtful) == (set(names[1:]), {names[0]})


def test_an_id_of_before_the_file_is_doubtful_and_a_key_is_not(opened: Open) -> None:
    old, key = an_id(NOW - 1), os.urandom(32)
    assert opened("a").claim([old, key], ()).doubtful == {old}


def test_the_oldest_are_forgotten_and_their_ids_doubtful(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 10)
    here = opened("a")
    names = [an_id(NOW + number) for number in range(30)]
    for name in names:
        assert here.claim([name], ()) == ClaimResult({})
        here.settle({name: b"said"}, ())
    assert here.claim([names[0]], ()).doubtful == {names[0]}
    assert here.claim([names[-1]], ()).known == {names[-1]: b"said"}


def test_a_file_that_is_damaged_is_made_anew(tmp_path: Path, opened: Open) -> None:
    (tmp_path / NAME).write_bytes(os.urandom(20_000))
    assert opened("a").claim([an_id()], ()) == ClaimResult({})


def test_of_a_file_that_cannot_be_used_nothing_is_known(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    here, name = opened("a"), an_id()
    here.close()
    assert here.claim([name], ()) == ClaimResult({})
    here.settle({name: b"said"}, ())
    assert caplog.text.count("a repetition may be accepted") == 1


def test_what_cannot_be_settled_is_settled_with_the_next_call(tmp_path: Path, opened: Open) -> None:
    here, there, name = opened("a"), opened("b"), an_id()
    here.claim([name], ())
    with closing(apsw.Connection(str(tmp_path / NAME))) as another:
        another.execute("BEGIN IMMEDIATE")
        here.settle({name: b"said"}, ())
        assert set(there.claim([name], ()).storing) == {name}
        another.execute("ROLLBACK")
    assert set(there.claim([name], ()).storing) == {name}
    here.claim([an_id()], ())
    assert there.claim([name], ()).known == {name: b"said"}


def test_a_file_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(StoreError):
        SharedClaims(tmp_path, "a", NOW)
