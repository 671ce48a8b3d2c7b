"""The image of the bus, made and run by its own Dockerfile in a root of its own: what is green here starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.image import Container, Image
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]
START_WITHIN = 90.0
ROOMS = {"topics": [{"#D": {"#C": ["a"], "#P": "a"}}], "lookupSchema": {"a": "127.0.0.1:9"}}


def keyed(image: Image, data: Path) -> None:
    """Make a store with a key in it: nothing serves beyond loopback before there is one."""
    with Container(image, data, ["key", "create", "--role", "admin", "--data", "/var/lib/bus", "--json"]) as made:
        assert made.child.wait(60) == 0, made.child.output()
        assert '"role": "admin"' in made.child.output()


def test_without_a_key_it_says_what_to_do(image: Image, tmp_path: Path) -> None:
    with Container(image, tmp_path / "data") as refused:
        assert refused.child.wait(60) == 1
        assert "bus key create" in refused.child.output()


def test_a_bus_starts_as_another_user_on_a_read_only_root(image: Image, tmp_path: Path) -> None:
    keyed(image, tmp_path / "data")
    with Container(image, tmp_path / "data") as bus:
        wait_until(bus.is_healthy, within=START_WITHIN, what="healthy", state=bus.child.output)
        assert bus.run("id", "-u").stdout.strip() == "10001"
        assert "Read-only file system" in bus.run("touch", "/opt/pier/x").stderr
        assert bus.stop() == 0
    assert {path.stat().st_uid for path in (tmp_path / "data").rglob("*")} == {10001}


@pytest.mark.parametrize("role", ["receiver", "dispatcher", "compensator", "admin", "sweeper", "alarms", "lookup"])
def test_each_role_starts(image: Image, tmp_path: Path, role: str) -> None:
    data = tmp_path / "data"
    keyed(image, data)
    (data / "rooms.json").write_text(json.dumps(ROOMS), "utf-8")
    env = {"BUS_LOOKUP_CONFIG": "/var/lib/bus/rooms.json"} if role == "lookup" else {}
    with Container(image, data, ["run", role], env=env) as process:
        wait_until(process.is_healthy, within=START_WITHIN, what="healthy", state=process.child.output)
        assert process.stop() == 0, process.child.output()


def test_pages_are_drawn_from_a_read_only_root(image: Image, tmp_path: Path) -> None:
    keyed(image, tmp_path / "data")
    with Container(image, tmp_path / "data", ["run", "admin"]) as admin:
        wait_until(admin.is_healthy, within=START_WITHIN, what="healthy", state=admin.child.output)
        page = "http://127.0.0.1:8700/admin/login"
        read = admin.run("python", "-c", f"import urllib.request as r; print(r.urlopen({page!r}).read().decode())")
        assert "</html>" in read.stdout, read.stderr + admin.child.output()


def test_a_bus_that_is_away_is_not_healthy(image: Image, tmp_path: Path) -> None:
    keyed(image, tmp_path / "data")
    with Container(image, tmp_path / "data", env={"BUS_PORT": "8701"}) as bus:
        wait_until(bus.is_healthy, within=START_WITHIN, what="healthy", state=bus.child.output)
        elsewhere = bus.run("env", "BUS_PORT=8702", "python", "/opt/pier/healthy.py")
        assert elsewhere.returncode == 1
