"""The chain of a strict order on the command line, whatever its shape, and the two decisions about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.admin.chain_shapes import SHAPES, fill, shape, strict_world
from tests.unit.cli.conftest import Cli

DESTINATION = "/api/v1/destinations/orders"
ORDERING = f"{DESTINATION}/ordering"
COMMAND = "bus ordering abandon orders g1"
COSTS = {"costs": [{"what": "what was sent after them is delivered now, before them", "what_text": None}]}
ABANDONED = {"group": "g1", "epoch": 3, "waiting": [{"subscription": "mail", "waiting": None}], "count": None, **COSTS}


async def answer(name: str, *dead: str) -> Any:
    """Return what the API tells of a chain of a shape."""
    world = await strict_world()
    await shape(world, SHAPES[name])
    await fill(world.groups["g1"], 3)
    for group in dead:
        world.groups[group].set_copies(0)
    async with world.client() as client:
        return (await client.get("/destinations/orders/ordering")).json()


def telling(bus: FakeBus, found: Any) -> None:
    bus.on("GET", DESTINATION, {"ordering": "strict"})
    bus.on("GET", ORDERING, found)
    bus.on("GET", f"{DESTINATION}/subscriptions", {"items": [], "next": None})


@pytest.mark.parametrize("name", SHAPES)
def test_a_chain_of_any_shape_is_shown(cli: Cli, bus: FakeBus, name: str) -> None:
    found = asyncio.run(answer(name))
    telling(bus, found)
    ran = cli("ordering", "show", "orders")
    assert (ran.code, ran.err) == (0, "no key is blocked\n")
    assert ran.out.startswith("orders: ")
    assert ran.out.count("blocked ") == len(found["blocked"])
    assert cli("ordering", "show", "orders", "--json").json == {"items": [], "next": None, "chain": found}


def test_a_chain_is_a_row_of_segments_with_what_blocks_below(cli: Cli, bus: FakeBus) -> None:
    telling(bus, asyncio.run(answer("partly drained", "g1")))
    assert cli("ordering", "show", "orders").out.splitlines() == [
        "orders: strict order, epoch 110",
        "  [g1 #103: billing ? queued, mail drained] -> [g2 #110, accepts messages: billing 0 queued, mail 0 queued]",
        "sender    node-1 http://127.0.0.1:1, epoch 101",
        "reader    node-1 http://127.0.0.1:1, epoch 102",
        "accepts   g2",
        "group     g1: unreachable; 0 of 3 copies are up",
        "group     g2: empty",
        "group     g3: empty",
        "blocked   billing of orders wait for group g1, which does not answer; senders went on with g2",
        f"          bring its brokers back: what they hold comes first; if it is lost for good: {COMMAND}",
    ]


def test_a_group_that_lost_its_disks_is_marked(cli: Cli, bus: FakeBus) -> None:
    telling(bus, asyncio.run(answer("lost disks")))
    told = cli("ordering", "show", "orders").out
    assert "[g1 #103, lost its disks: billing ? queued, mail drained] -> [g2 #110, accepts messages:" in told
    assert "blocked   group g1 lost its disks: what it took of orders from 2023-11-14T22:13:20.000Z to ?" in told


def test_what_a_decision_costs_is_said_and_nothing_is_done_unasked(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", f"{ORDERING}/abandon", ABANDONED | {"dry_run": True})
    asked = ("ordering", "abandon", "orders", "g1", "--reason", "its disks are gone")
    ran = cli(*asked)
    assert (ran.code, ran.out) == (1, "")
    assert "before them\nmail: - queued\n" in ran.err
    assert "confirm with --yes" in ran.err
    ran = cli(*asked, "--dry-run")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "dry run: nothing was changed")
    assert all(one.body["dry_run"] is True for one in bus.asked)
    assert cli("ordering", "abandon", "orders", "g1").code == 2


def test_a_decision_is_taken_when_somebody_says_yes(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.on("POST", f"{ORDERING}/abandon", ABANDONED | {"dry_run": False})
    bus.on("POST", f"{ORDERING}/release-producer", COSTS | {"dry_run": False})
    ran = cli("ordering", "abandon", "orders", "g1", "--reason", "x", "--force", "--yes", "--json")
    assert ran.json == ABANDONED | {"dry_run": False}
    assert [one.body for one in bus.asked] == [{"group": "g1", "reason": "x", "force": True, "dry_run": False}]
    assert cli("ordering", "release-producer", "orders", "--reason", "x", "--yes").out.splitlines()[-1] == "done"
    monkeypatch.setattr("bus.cli.commands.chains._ask", lambda *_: None)
    assert cli("ordering", "release-producer", "orders", "--reason", "x").code == 0
    assert [one.body["dry_run"] for one in bus.asked[1:]] == [False, True, False]


def test_a_refusal_has_a_next_step(cli: Cli, bus: FakeBus) -> None:
    refusal = {"detail": "group 'g1' takes the messages to 'orders' now", "hint": "wait until senders moved on"}
    bus.on("POST", f"{ORDERING}/abandon", (409, refusal))
    ran = cli("ordering", "abandon", "orders", "g1", "--reason", "x", "--yes")
    assert (ran.code, ran.err) == (1, f"error: {refusal['detail']} (hint: {refusal['hint']})\n")


@pytest.mark.parametrize(
    ("command", "example"), [("abandon", "g1 --reason"), ("release-producer", "--reason scrapped")]
)
def test_help_has_examples(cli: Cli, command: str, example: str) -> None:
    said = cli("ordering", command, "--help").out
    assert f"bus ordering {command} account.changed" in said
    assert example in said
