"""Each key has one owner among the receivers, the same in all their views."""

from __future__ import annotations

from collections import Counter

from bus.cluster.member import Member
from bus.domain.health.vitals import UnreachableProcess
from receiver.key_owners import UNREACHABLE, KeyOwners

KEYS = [f"{number:064x}" for number in range(3000)]


class Crowd:
    def __init__(self, me: Member, *others: Member) -> None:
        self.me = me
        self.others = list(others)
        self.unreachable: list[UnreachableProcess] = []


def receiver(owner: str, group: str = "", roles: tuple[str, ...] = ("receiver", "dispatcher")) -> Member:
    return Member(owner=owner, node=owner, url=f"http://{owner}", roles=roles, version="1", started_at=0, group=group)


def owners_of(members: list[Member]) -> dict[str, str]:
    """Return the owner of each key, which all have to agree on."""
    views = [KeyOwners(Crowd(me, *(one for one in members if one is not me))) for me in members]
    found = {}
    for key in KEYS:
        names = {view.owner(key) or me.owner for view, me in zip(views, members, strict=True)}
        assert len(names) == 1
        found[key] = names.pop()
    return found


def test_all_agree_and_each_has_its_part() -> None:
    members = [receiver(name) for name in "abc"]
    counts = Counter(owners_of(members).values())
    assert counts.keys() == {"a", "b", "c"}
    assert min(counts.values()) > 800


def test_only_the_keys_of_who_joins_change_their_owner() -> None:
    before = owners_of([receiver(name) for name in "ab"])
    after = owners_of([receiver(name) for name in "abc"])
    assert {after[key] for key in KEYS if before[key] != after[key]} == {"c"}


def test_processes_of_one_port_are_one_owner() -> None:
    a, a2, b = receiver("a", "a"), receiver("a2", "a"), receiver("b")
    assert KeyOwners(Crowd(a, a2)).is_alone
    assert not KeyOwners(Crowd(a, a2, b)).is_alone
    theirs = {key for key in KEYS if not KeyOwners(Crowd(a, a2, b)).owner(key)}
    assert theirs == {key for key in KEYS if not KeyOwners(Crowd(a2, a, b)).owner(key)}
    asked = Counter(KeyOwners(Crowd(b, a, a2)).owner(key) for key in KEYS)
    assert asked["a"] + asked["a2"] == len(theirs)
    assert min(asked.values()) > 500


def test_who_is_no_receiver_owns_no_key() -> None:
    owners = KeyOwners(Crowd(receiver("a"), receiver("d", roles=("dispatcher",))))
    assert {owners.owner(key) for key in KEYS} == {""}


def test_an_unreachable_receiver_keeps_its_keys_unless_another_process_has_them_as_well() -> None:
    a, b = receiver("a"), receiver("b", "b")
    crowd = Crowd(a, b)
    theirs = {key for key in KEYS if KeyOwners(crowd).owner(key) == "b"}
    gone = UnreachableProcess("b2", "b2", "http://b2", ("receiver",), 0, 0, "b")
    crowd.unreachable = [gone]
    assert {key for key in KEYS if KeyOwners(crowd).owner(key) == "b"} == theirs
    crowd.others = []
    assert {key for key in KEYS if KeyOwners(crowd).owner(key) == UNREACHABLE} == theirs
    assert KeyOwners(crowd).member("b2") is None
