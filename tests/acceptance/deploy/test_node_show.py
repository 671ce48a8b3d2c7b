"""The DaemonSet of the seed: every process of a node is killed, and all accepted messages arrive."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.image import Image
from tests.harness.pods import privately
from tests.harness.process import Child, module
from tests.servers import need
from tests.unit.deploy.product import ROLES

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


@pytest.mark.parametrize("folder", ["base", "any-user"])
def test_queues_of_killed_pods_are_swept_by_their_node(image: Image, tmp_path: Path, folder: str) -> None:
    for name in ("kustomize", "mongodb"):
        need(name)
    words = privately(module("tests.harness.node_show", image.root.parent, tmp_path, folder))
    with Child(words, log=tmp_path / "show.log") as show:
        assert show.wait(400) == 0, show.output()
        text = show.log.read_text("utf-8")
    found = json.loads(text.splitlines()[-1])
    sent = [one for ids in found["sent"].values() for one in ids]
    assert all(len(ids) >= 150 for ids in found["sent"].values())
    assert len(found["killed"]["producers"]) == 3
    assert [name.rpartition("-")[0] for name in found["killed"]["services"]] == ["receiver"]
    assert found["before"] == 0
    arrived = Counter(found["arrived"])
    assert set(sent) <= set(arrived)
    # A kill may come between the disk's answer and the print: one message of each application.
    assert len(set(arrived) - set(sent)) <= len(found["sent"])
    # What every other role left, each killed as well, is gone too.
    assert {name.rpartition("-")[0] for name in found["ended"]} == ROLES - {"sweeper"}
    twice = arrived.total() - len(arrived)
    print(f"{folder}: {len(sent)} sent by three applications, {len(arrived)} arrived, {twice} twice")
