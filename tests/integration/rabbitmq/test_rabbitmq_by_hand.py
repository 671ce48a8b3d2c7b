"""A person moves publishing between the two clusters, with the command line, in every receiver of the bus."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.bus_process import run_bus
from tests.harness.cluster import Cluster
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.integration.rabbitmq.rabbitmq_world import LONG, new_code, somebody_else
from tests.servers.rabbitmq import RabbitmqServer

PRIMARY, BACKUP = "rabbitmq-primary", "rabbitmq-backup"


def waiting(server: RabbitmqServer, code: str) -> int:
    """Return how many messages wait in the queue of a destination."""

    async def count() -> int:
        async with somebody_else(server.url) as other:
            queue = await other.declare_queue(f"pier/{code}/billing", passive=True)
            return int(queue.declaration_result.message_count or 0)

    return asyncio.run(count())


def cluster(bus: Cluster, *arguments: str) -> dict[str, Any]:
    """Run ``bus cluster`` at the admin and return what it printed, the items by name."""
    ran = run_bus("cluster", *arguments, "--json", "--url", bus.of("admin")[0].url, within=LONG)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return {"preferred": found["preferred"], **{item["name"]: item for item in found["items"]}}


def refused(bus: Cluster, name: str, said: str) -> None:
    """Assert that a cluster cannot be chosen, and that one line says why."""
    ran = run_bus("cluster", "prefer", name, "--url", bus.of("admin")[0].url, within=LONG)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1


def publishers(bus: Cluster, name: str) -> set[str]:
    found = bus.admin.call("GET", "/api/v1/clusters").json()["items"]
    return {url for item in found if item["name"] == name for url in item["published_by"]}


def send(bus: Cluster, code: str) -> set[str]:
    """Have each receiver accept a message; return their ids."""
    answers = [receiver.admin.send(code, b"{}") for receiver in bus.of("receiver")]
    assert {answer.status_code for answer in answers} == {httpx.codes.ACCEPTED}
    return {answer.json()["id"] for answer in answers}


def test_publishing_is_moved_by_hand_in_every_receiver_and_all_is_delivered(
    primary: RabbitmqServer, backup: RabbitmqServer, tmp_path: Path
) -> None:
    code = new_code()
    env = {"BUS_RABBITMQ_PRIMARY": primary.url, "BUS_RABBITMQ_BACKUP": backup.url}
    roles = ("admin", "receiver", "receiver")
    with SubscriberProcess(tmp_path) as subscriber, Cluster(tmp_path, roles, env=env) as bus:
        everyone = {receiver.url for receiver in bus.of("receiver")}
        bus.admin.destination(code, transport="rabbitmq")
        bus.admin.subscription(code, "billing", subscriber.url("/billing"))
        _until(lambda: publishers(bus, PRIMARY) == everyone, "all publish to the primary")
        assert set(cluster(bus, "list")[PRIMARY]["published_by"]) == everyone
        sent = send(bus, code)
        _until(lambda: waiting(primary, code) == 2, "the messages are on the primary")

        refused(bus, "nowhere", "there is no cluster 'nowhere' here")
        assert cluster(bus, "prefer", BACKUP)["preferred"] == BACKUP
        _until(lambda: publishers(bus, BACKUP) == everyone, "all publish to the backup")
        sent |= send(bus, code)
        _until(lambda: waiting(backup, code) == 2, "the messages are on the backup")
        doctor = run_bus("doctor", "--url", bus.of("receiver")[0].url, "--data", tmp_path, within=LONG)
        assert f"{BACKUP}: published to, as chosen by hand" in doctor.stdout

        # A receiver that starts later goes by the choice as well.
        bus.of("receiver")[0].kill()
        bus.of("receiver")[0].start()
        _until(lambda: publishers(bus, BACKUP) == everyone, "it publishes to the backup too")
        sent |= send(bus, code)
        _until(lambda: waiting(backup, code) == 4, "all the messages are on the backup")
        assert waiting(primary, code) == 2

        assert cluster(bus, "auto")["preferred"] is None
        _until(lambda: publishers(bus, PRIMARY) == everyone, "all publish to the primary again")
        sent |= send(bus, code)
        _until(lambda: waiting(primary, code) == 4, "the messages are on the primary again")

        bus.add("dispatcher")
        _until(lambda: {call.id for call in subscriber.calls()} == sent, "all is delivered, from both clusters")
        bus.admin.wait_drained(code, sent, within=LONG)
        assert len(subscriber.calls()) == len(sent) == 8
        bus.admin.call("DELETE", f"/api/v1/destinations/{code}/subscriptions/billing")


@pytest.mark.proof
def test_what_cannot_be_chosen_is_said(primary: RabbitmqServer, tmp_path: Path) -> None:
    for env, said in (
        ({}, "no transport here has clusters to choose from (hint: name its servers"),
        ({"BUS_RABBITMQ_PRIMARY": primary.url}, f"{PRIMARY} is the only cluster of its transport"),
    ):
        folder = tmp_path / str(len(env))
        folder.mkdir()
        with Cluster(folder, ("admin", "receiver"), env=env) as bus:
            refused(bus, PRIMARY, said)


def _until(check: Any, what: str) -> None:
    wait_until(check, within=LONG, what=what)
