"""A bus gets another key for its secrets, and signs on with the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

OLD, NEW = "o" * 32, "n" * 32


def life(folder: Path, **env: str) -> BusProcess:
    return BusProcess(folder / "data", env={f"BUS_{name}": value for name, value in env.items()})


@pytest.mark.parametrize(
    "first",
    [
        pytest.param({"SECRET_KEY": OLD}, id="another-key"),
        pytest.param({}, id="first-key", marks=pytest.mark.proof),
    ],
)
def test_secrets_outlive_their_key(tmp_path: Path, subscriber: SubscriberProcess, first: dict[str, Any]) -> None:
    with life(tmp_path, **first) as bus:
        bus.admin.destination("d")
        secret = bus.admin.subscription("d", "s", subscriber.url("/s"), secret="auto")["secret"]
        assert bus.stop() == 0
    if first:
        refused = run_bus("up", "--data", tmp_path / "data", env={"BUS_SECRET_KEY": NEW})
        assert refused.returncode == 1
        assert "BUS_SECRET_KEY_OLD" in refused.stderr
    with life(tmp_path, SECRET_KEY=NEW, **({"SECRET_KEY_OLD": OLD} if first else {})) as bus:
        assert bus.admin.call("GET", "/api/v1/secrets").json() == {"stale": 1}
        ran = run_bus("secrets", "reseal", "--json", "--url", bus.url)
        assert ran.returncode == 0, ran.stderr
        assert bus.admin.call("GET", "/api/v1/secrets").json() == {"stale": 0}
        assert bus.stop() == 0
    subscriber.configure(f"/s=secret:{secret}")
    with life(tmp_path, SECRET_KEY=NEW) as bus:
        assert bus.admin.send("d", b"{}").status_code == 202
        wait_until(lambda: bus.admin.statuses("d")["delivered"] == 1, within=60, what="it is delivered, well signed")
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes() or not first
