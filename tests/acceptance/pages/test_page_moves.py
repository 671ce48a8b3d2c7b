"""A topic of NSQ on its way to another cluster, seen and steered in the pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.harness.bus_process import BusProcess
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.harness.waiting import wait_until
from tests.servers import need, nsq

TOPIC = "orders"
MIGRATIONS = "/api/v1/lookup/migrations"


class World(NamedTuple):
    bus: BusProcess
    proxy: LookupProxy

    def read(self) -> dict:
        return self.bus.admin.call("GET", f"{MIGRATIONS}/{TOPIC}-1").json()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A bus, and a lookup proxy of it in front of two clusters; the topic is in the first."""
    folder, programs = tmp_path_factory.mktemp("moves"), need("nsq")
    env = {"BUS_STORE": f"sqlite:///{folder / 'store'}"}
    with ExitStack() as stack:
        lookupds, nsqds = {}, {}
        for name in ("east", "west"):
            lookupds[name] = stack.enter_context(nsq.NsqLookupServer(programs, folder / f"lookupd-{name}"))
            nsqds[name] = stack.enter_context(nsq.NsqdServer(programs, folder / name, lookupds=[lookupds[name].tcp]))
        nsqds["east"].call("/topic/create", topic=TOPIC)
        nsqds["east"].call("/channel/create", topic=TOPIC, channel="billing")
        nsqds["east"].call("/pub", b"one that waits", topic=TOPIC)
        bus = stack.enter_context(BusProcess(folder / "bus", env=env))
        told = {name: [one.http] for name, one in lookupds.items()}
        topics = routes(default={"#C": ["east"], "#P": "east"})
        proxy = stack.enter_context(LookupProxy(folder / "proxy", told, topics, env=env))
        proxy.wait_ports(TOPIC, "r", {int(nsqds["east"].tcp.rpartition(":")[2])})
        yield World(bus, proxy)


def test_a_topic_that_moves_is_shown_step_by_step_and_steered(look: Look, world: World) -> None:
    looker = look(world.bus)
    page = looker.open("/health")
    page.get_by_role("link", name="Topics that move between clusters of NSQ").click()
    expect(page.get_by_text("No topic moves")).to_be_visible()
    begun = world.bus.admin.call("POST", MIGRATIONS, json={"topic": TOPIC, "to": "west"})
    assert begun.status_code == 201, begun.text
    steps = page.get_by_role("list", name="Steps of the migration")
    expect(steps.get_by_role("listitem")).to_have_count(4)
    expect(steps.locator("[aria-current=step]")).to_contain_text("Consumers on both")
    expect(page.get_by_text("It waits until:")).to_be_visible()
    expect(page.get_by_role("row", name="east 0 0 1 0 0")).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()

    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("paused")).to_be_visible()
    assert world.read()["paused"]
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()

    page.get_by_role("button", name="Go on without evidence…").click()
    asking = page.get_by_role("dialog")
    expect(asking).to_contain_text("messages wait on the target until consumers come to it")
    asking.get_by_role("button", name="Go on all the same").click()
    expect(asking.get_by_text("Type orders to go on").last).to_be_visible()
    asking.get_by_label("Type orders to go on").fill(TOPIC)
    asking.get_by_role("button", name="Go on all the same").click()
    expect(steps.locator("[aria-current=step]")).to_contain_text("Producers on the target")
    expect(steps.locator("[aria-current=step]")).to_contain_text("by anyone")

    page.get_by_role("button", name="Roll back…").click()
    asking = page.get_by_role("dialog")
    asking.get_by_label("Type orders to go on").fill(TOPIC)
    asking.get_by_role("button", name="Roll back").click()
    expect(steps.locator("[aria-current=step]")).to_contain_text("Back: producers on the source")
    wait_until(lambda: world.read()["produce"] == ["east"], within=10, what="the proxy answers by it")
    entries = world.bus.admin.call("GET", "/api/v1/audit?what=lookup/migrations").json()["items"]
    assert {entry["resource"].rpartition("/")[2] for entry in entries} >= {"rollback", "advance", "pause", "resume"}


def test_nobody_is_there_to_tell_of_topics(look: Look, open_bus: BusProcess) -> None:
    assert open_bus.admin.call("GET", MIGRATIONS).status_code == 404
    page = look().open("/moves")
    expect(page.get_by_text("no lookup proxy is alive")).to_be_visible()
    expect(page.get_by_text("bus run lookup")).to_be_visible()
