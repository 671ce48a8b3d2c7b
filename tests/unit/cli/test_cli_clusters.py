"""The choice of the cluster to publish to."""

from __future__ import annotations

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

CLUSTERS = "/api/v1/clusters"
FOUND = {
    "preferred": "rabbitmq-backup",
    "items": [
        {"name": "rabbitmq-primary", "transport": "rabbitmq", "preferred": False, "ok": True, "detail": ""},
        {"name": "rabbitmq-backup", "preferred": True, "ok": True, "published_by": ["http://a", "http://b"]},
    ],
    "next": None,
}


def test_clusters_are_listed(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", CLUSTERS, FOUND)
    lines = [line.split("\t") for line in cli("cluster", "list").out.splitlines()]
    assert lines[0] == ["name", "preferred", "ok", "published_by", "detail"]
    assert lines[2] == ["rabbitmq-backup", "yes", "yes", "http://a,http://b", "-"]
    assert cli("cluster", "list", "--json").json == FOUND


def test_one_is_chosen_and_the_choice_taken_back(cli: Cli, bus: FakeBus) -> None:
    bus.on("PUT", CLUSTERS, FOUND)
    assert "rabbitmq-backup\tyes" in cli("cluster", "prefer", "rabbitmq-backup").out
    assert bus.asked[-1].body == {"preferred": "rabbitmq-backup"}
    assert cli("cluster", "auto", "--json").json == FOUND
    assert bus.asked[-1].body == {"preferred": None}


def test_a_refusal_is_one_line_with_a_hint(cli: Cli, bus: FakeBus) -> None:
    bus.on("PUT", CLUSTERS, (422, {"detail": "there is no cluster 'x' here", "hint": "bus cluster list"}))
    ran = cli("cluster", "prefer", "x")
    assert (ran.code, ran.err) == (1, "error: there is no cluster 'x' here (hint: bus cluster list)\n")
    assert cli("cluster", "prefer").code == 2


def test_help_has_examples(cli: Cli) -> None:
    assert "bus cluster prefer rabbitmq-backup" in cli("cluster", "prefer", "--help").out
