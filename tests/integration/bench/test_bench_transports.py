"""Transports are measured on their real brokers, and only what took them counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import transports
from bench.bare_clients import BARE_CLIENTS
from bench.run import Run, Size
from bench.systems import BenchedTransport
from tests.harness.parts import BROKERS, Part
from tests.harness.process import Died

SMALL = Size(messages=512, seconds=1, backlog=1, rounds=1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "run"
    folder.mkdir()
    return Run(folder, SMALL, Path(), lambda _: None)


@pytest.fixture
def nsq(tmp_path: Path) -> Iterator[Part]:
    with BROKERS["nsq"](tmp_path) as part:
        yield part


QUICK = "nsq"


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(name, marks=pytest.mark.proof) for name in BARE_CLIENTS if name != QUICK)]
)
def test_publishing_is_measured_beside_the_bare_client(name: str, run: Run, tmp_path: Path) -> None:
    with BROKERS[name](tmp_path) as part:
        rows = transports.publishing(run, BenchedTransport(name, part.env))
    assert [row.figure for row in rows] == [f"{name}: publishes, {batch} a batch" for batch in (64, 256)]
    for row in rows:
        assert (row.beside, row.target) == (BARE_CLIENTS[name].name, 0.7)
        assert len(row.values) == len(row.references) == 4
        assert min(*row.values, *row.references) > 0


def test_what_the_broker_does_not_confirm_is_no_figure(run: Run, nsq: Part) -> None:
    for server in nsq.servers:
        server.kill()
    with pytest.raises(Died, match="no nsqd answers"):
        transports.publishing(run, BenchedTransport("nsq", nsq.env))


def test_deliveries_are_measured_through_the_transport(run: Run, nsq: Part) -> None:
    rows = transports.deliveries(run, [BenchedTransport("nsq", nsq.env)], 2)
    assert [(row.figure, row.beside) for row in rows] == [("nsq: deliveries, 2 subscribers", "direct")]
    assert min(rows[0].value, rows[0].reference) > 0


def test_deliveries_that_took_another_transport_are_no_figure(run: Run, nsq: Part) -> None:
    for server in nsq.servers:
        server.kill()
    with pytest.raises(RuntimeError, match="nsq carried 0 of 500 messages; the rest took another transport"):
        transports.deliveries(run, [BenchedTransport("nsq", nsq.env)], 1)
