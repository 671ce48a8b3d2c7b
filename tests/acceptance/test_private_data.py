"""Files of a bus and of a producer are readable by their owner alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bus import Bus
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import missing

NOBODY = 65534
# As another user: everything below a directory that can be listed or read, and the directory as a whole.
LOOK = """
import os, sys
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
for place, folders, files in os.walk(sys.argv[1]):
    for name in (*folders, *files):
        path = os.path.join(place, name)
        if os.access(path, os.R_OK) or os.access(path, os.W_OK):
            print(path)
"""


def seen_by_another(root: Path) -> list[str]:
    """Return what another user can read or write below a directory, which is itself opened to them for that."""
    if os.getuid() != 0:
        missing("only root can become another user")
    for place in (root, *root.parents):
        if place != place.parent:
            place.chmod(place.stat().st_mode | 0o055)
    program = LOOK.format(nobody=NOBODY)
    ran = subprocess.run([sys.executable, "-c", program, root], capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout.splitlines()


def modes(root: Path) -> dict[str, str]:
    """Return what is open to others below a directory, and how far."""
    return {
        str(path.relative_to(root)): oct(path.stat().st_mode & 0o777)
        for path in root.rglob("*")
        if path.stat().st_mode & 0o077
    }


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, shared_subscriber: SubscriberProcess) -> Path:
    """Return the directory below which a bus and a producer ran that let others read what they make, by their umask."""
    tmp_path, subscriber = tmp_path_factory.mktemp("used"), shared_subscriber
    before = os.umask(0)
    try:
        with BusProcess(tmp_path / "base" / "data", log=tmp_path / "bus.log") as bus:
            bus.admin.destination("d")
            bus.admin.subscription("d", "s", subscriber.url("/s"), secret="auto")
            bus.admin.subscription("d", "paused", subscriber.url("/p"), secret="auto", paused=True)
            with Bus(bus.url, spool=tmp_path / "base" / "spool") as producer:
                producer.send("d", {"seq": 1})
                assert producer.flush(60)
                wait_until(lambda: len(subscriber.calls("/s")) == 1, within=60, what="the message")
                assert run_bus("user", "add", "ann", "--url", bus.url).returncode == 0
                wait_until(lambda: list(bus.data.glob("events/*")), within=60, what="trace events")
                assert not modes(tmp_path / "base")
            assert bus.stop() == 0
        assert run_bus("key", "create", "--data", tmp_path / "base" / "data").returncode == 0
    finally:
        os.umask(before)
    return tmp_path / "base"


def test_another_user_reads_nothing_of_a_bus_that_ran(used: Path) -> None:
    assert not modes(used)
    data = used / "data"
    assert {"journal", "quarantine", "store", "processes", "configuration"} <= {p.name for p in data.iterdir()}
    assert seen_by_another(data) == []


def test_the_doctor_finds_what_is_open_and_closes_it(used: Path) -> None:
    data = used / "data"
    for path in (data, *data.rglob("*")):
        path.chmod(path.stat().st_mode | 0o055)
    assert any("store" in path for path in seen_by_another(data))
    count = 1 + sum(1 for _ in data.rglob("*"))

    def permissions(*options: str) -> dict[str, object]:
        ran = run_bus("doctor", "--data", data, "--json", *options)
        (found,) = [check for check in json.loads(ran.stdout)["checks"] if check["name"] == "permissions"]
        return dict(found)

    found = permissions()
    assert not found["ok"]
    assert f"{count} files and directories" in str(found["detail"])
    assert f"such as {data}" in str(found["detail"])
    assert permissions("--close-directory")["ok"]
    assert permissions()["ok"]
    assert not modes(data)
    with BusProcess(data) as bus:
        assert bus.admin.call("GET", "/readyz").status_code == 200


def test_the_doctor_leaves_a_directory_alone_that_is_no_bus(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "notes").chmod(0o644)
    assert run_bus("doctor", "--data", tmp_path, "--close-directory").returncode == 1  # there is no bus
    assert oct((tmp_path / "notes").stat().st_mode & 0o777) == "0o644"
