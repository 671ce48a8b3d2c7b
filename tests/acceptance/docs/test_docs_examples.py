"""The steps of README, tutorial and how-tos are run, and their results are as shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.documented import Reader
from tests.harness.parts import BROKERS, STORES
from tests.harness.process import ROOT

OFTEN = ("README.md", "docs/producers.md")
# What the servers of the tests were built with, so that Go's own packages are built already.
GO = {"GOFLAGS": "-trimpath", "GOCACHE": os.environ.get("GOCACHE") or str(Path.home() / ".cache" / "go-build")}


def read(name: str, folder: Path, **env: str) -> None:
    """Do what a page says."""
    with Reader(folder, env=GO | env) as reader:
        assert reader.read((ROOT / name).read_text("utf-8")) > 0


@pytest.mark.parametrize("name", OFTEN)
def test_the_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    read(name, tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize(
    "name", ["docs/tutorial.md", "docs/howto/repair.md", "docs/howto/backup.md", "docs/howto/upgrade.md"]
)
def test_the_page_does_what_it_says_in_a_proof(name: str, tmp_path: Path) -> None:
    read(name, tmp_path)


@pytest.mark.proof
def test_a_room_is_lost_as_its_page_says(tmp_path: Path) -> None:
    with STORES["mongodb"](tmp_path / "mongodb") as store, BROKERS["rabbitmq"](tmp_path / "rabbitmq") as brokers:
        lose_east = f"kill -9 {brokers.servers[0].child.pid}"
        read("docs/howto/room.md", tmp_path / "reader", LOSE_EAST=lose_east, **store.env, **brokers.env)
