"""Spools and the doctor."""

from __future__ import annotations

import errno
import json
import shlex
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

from bus import Bus
from bus.client.spooling import home
from bus.client.spooling.lanes import CONSUMER
from bus.domain.message import Message, encode_message
from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool, Options
from bus.spool.file import NAME
from bus.testing.broker_group import MemoryGroup
from tests.harness.fake_bus import Asked, FakeBus
from tests.unit.cli.conftest import Cli

READY = {"status": "ok", "checks": [{"name": "store", "ok": True, "detail": ""}]}


def left(root: Path, *destinations: str) -> Path:
    """Leave a directory as a process does whose receiver never answered."""
    with Bus("http://127.0.0.1:9", spool=root, source="shop") as bus:
        for destination in destinations:
            bus.send(destination, {"n": 1}, biz_id="b")
        (directory,) = [path for path in home.homes(root) if path.name.startswith("shop")]
    return directory


def judged(refused: dict[str, int]) -> Any:
    def answer(asked: Asked) -> dict[str, Any]:
        results = []
        for line in asked.content.split(b"\n"):
            message = json.loads(line)
            code = refused.get(message["destination"])
            error = {"title": "No", "status": code, "detail": "because"}
            status = {"status": "rejected", "error": error} if code else {"status": "accepted"}
            results.append({"id": message["id"], **status})
        return {"results": results}

    return answer


def test_ls_and_show_look_without_touching(cli: Cli, tmp_path: Path) -> None:
    directory = left(tmp_path, "a", "a", "b")
    found = cli("spool", "ls", str(tmp_path), "--json").json["items"]
    assert [(item["directory"], item["state"], item["damaged"]) for item in found] == [(str(directory), "orphan", 0)]
    assert [(lane["lane"], lane["records"]) for lane in found[0]["consumers"]] == [("out/a", 2), ("out/b", 1)]
    assert [lane["foreign"] for lane in found[0]["consumers"]] == [False, False]
    head, *rows = [line.split("\t") for line in cli("spool", "ls", str(directory)).out.splitlines()]
    assert head[2:7] == ["stream", "consumer", "records", "oldest", "unconfigured"]
    assert [(row[2], row[4], row[6]) for row in rows] == [("out/a", "2", "no"), ("out/b", "1", "no")]
    shown = cli("spool", "show", str(directory), "--stream", "out/a", "--limit", "1", "--json").json["items"]
    assert [(item["destination"], item["biz_id"], item["bytes"]) for item in shown] == [("a", "b", 7)]
    assert len(cli("spool", "show", str(directory)).out.splitlines()) == 4


def test_a_live_spool_can_be_looked_at(cli: Cli, tmp_path: Path) -> None:
    with BlockingSpool(tmp_path / "receiver", Options(consumers=("publish",))) as spool:
        message = Message("i", "orders", b"body")
        spool.append([NewRecord("orders", encode_message(message), 1), NewRecord("raw", b"\xff\xff", 1)])
        item = cli("spool", "ls", str(tmp_path), "--json").json["items"][0]
        assert item["state"].startswith("live, process ")
        shown = cli("spool", "show", str(tmp_path), "--json").json["items"]
    assert [(record["lane"], record.get("id"), record["bytes"]) for record in shown] == [
        ("orders", "i", 4),
        ("raw", None, 2),
    ]


def test_an_empty_live_spool_is_listed(cli: Cli, tmp_path: Path) -> None:
    with BlockingSpool(tmp_path / "receiver"):
        assert "live, process" in cli("spool", "ls", str(tmp_path)).out


@pytest.mark.parametrize("command", ["ls", "show", "drain"])
def test_where_there_is_no_spool(cli: Cli, tmp_path: Path, command: str) -> None:
    ran = cli("spool", command, str(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "hint" in ran.err


def test_what_is_not_a_spool_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "spool.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    ran = cli("spool", "ls", str(tmp_path))
    assert (ran.code, ran.err.count("\n")) == (1, 1)


def test_drain_sends_and_removes(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    left(tmp_path, "a", "b")
    bus.on("POST", "/v1/messages", judged({}))
    ran = cli("spool", "drain", str(tmp_path), "--json")
    assert ran.code == 0
    (item,) = ran.json["items"]
    assert (item["sent"], item["waiting"], item["removed"]) == (2, 0, True)
    assert home.homes(tmp_path) == []


def test_drain_keeps_what_is_not_taken(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    directory = left(tmp_path, "good", "bad", "later")
    bus.on("POST", "/v1/messages", judged({"bad": 404, "later": 403}))
    ran = cli("spool", "drain", str(directory), "--json")
    assert ran.code == 1
    (item,) = ran.json["items"]
    assert (item["sent"], item["waiting"], item["rejected"], item["removed"]) == (1, 1, 1, False)
    assert "because" in cli("spool", "show", str(directory), "--stream", "rejected").out
    bus.on("POST", "/v1/messages", judged({}))
    shown = cli("spool", "show", str(directory), "--lane", "rejected", "--json").json["items"]
    assert [(record["lane"], record["reason"]) for record in shown] == [("rejected", "because")]
    ran = cli("spool", "drain", str(directory), "--json")
    assert ran.code == 1  # the rejected one waits for --rejected
    command = shlex.split(ran.json["items"][0]["problem"].partition("see bus ")[2])
    assert "because" in cli(*command).out
    again = cli("spool", "drain", str(directory), "--rejected")
    assert again.code == 0
    assert home.homes(tmp_path) == []


def test_drain_without_a_receiver(cli: Cli, tmp_path: Path) -> None:
    left(tmp_path, "a")
    ran = cli("spool", "drain", str(tmp_path), "--url", "http://127.0.0.1:9", "--json")
    assert ran.code == 1
    assert ran.json["items"][0]["problem"] == "connection refused by 127.0.0.1:9"


def test_drain_leaves_a_live_process_alone(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    spool = home.open_home(tmp_path, "live", Options(consumers=(CONSUMER,)))
    ran = cli("spool", "drain", str(tmp_path), "--json")
    assert ran.code == 1
    assert "alive" in ran.json["items"][0]["problem"]
    spool.close()


def healthy(bus: FakeBus) -> None:
    bus.on("GET", "/healthz", {"status": "ok"})
    bus.on("GET", "/readyz", READY)
    bus.on("GET", "/api/v1/destinations", {"items": [], "next": None})


def test_the_doctor_finds_all_well(cli: Cli, bus: FakeBus) -> None:
    healthy(bus)
    ran = cli("doctor")
    assert ran.code == 0
    assert "ok    store: ok" in ran.out
    assert "ok    sqlite: 3." in ran.out
    assert cli("doctor", "--json").json["ok"] is True


def test_the_doctor_goes_on_where_a_directory_is_closed_to_who_asks(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(bus)

    def closed(directory: Path) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(directory / "store"))

    monkeypatch.setattr("bus.cli.commands.doctor.opened", closed)
    ran = cli("doctor", "--data", str(tmp_path))
    assert ran.code == 1
    assert f"FAIL  permissions: cannot read {tmp_path}: permission denied: {tmp_path}" in ran.out
    assert "ok    store: ok" in ran.out


def test_the_doctor_says_what_to_do(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    healthy(bus)
    bus.on("GET", "/readyz", {"status": "degraded", "checks": [{"name": "store", "ok": False, "detail": "away"}]})
    ran = cli("doctor", "--data", str(tmp_path / "not" / "there"))
    assert ran.code == 1
    assert "FAIL  store: away -> " in ran.out
    assert f"GiB free at {tmp_path}" in ran.out


def test_the_doctor_asks_each_group_of_brokers(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(bus)
    config = tmp_path / "bus.toml"
    config.write_text('[kafka_groups]\na = "127.0.0.1:9"\nb = "127.0.0.1:9"\n')
    groups = {name: MemoryGroup(name) for name in ("a", "b", "c")}
    groups["b"].set_copies(2)
    groups["c"].set_copies(0)
    monkeypatch.setattr("bus.bootstrap.probing.open_groups", lambda *_: {"kafka": groups})
    monkeypatch.setattr("bus.bootstrap.probing._PATIENCE", 0.2)
    ran = cli("doctor", "--config", str(config), "--url", bus.url)
    assert ran.code == 1
    assert "ok    kafka_groups.a: reachable\n" in ran.out
    assert "FAIL  kafka_groups.b: 2 of 3 copies are up -> restore its brokers" in ran.out
    assert "FAIL  kafka_groups.c: 0 of 3 copies are up -> restore its brokers" in ran.out


@pytest.mark.parametrize(
    ("answer", "part"),
    [((401, {"detail": "a key is needed", "status": 401}), "FAIL  access: a key is needed -> give --api-key")],
)
def test_the_doctor_tries_the_key(cli: Cli, bus: FakeBus, answer: Any, part: str) -> None:
    healthy(bus)
    bus.on("GET", "/api/v1/destinations", answer)
    ran = cli("doctor")
    assert ran.code == 1
    assert part in ran.out


def test_the_doctor_without_a_bus(cli: Cli) -> None:
    ran = cli("doctor", "--url", "http://127.0.0.1:9")
    assert (ran.code, ran.err) == (1, "")
    assert "FAIL  bus: cannot reach http://127.0.0.1:9: connection refused by 127.0.0.1:9 -> " in ran.out


def test_the_doctor_without_a_bus_at_the_default_address(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUS_URL")
    monkeypatch.setattr("bus.cli.options.DEFAULT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("bus.cli.commands.doctor.DEFAULT_URL", "http://127.0.0.1:9")
    assert "-> start one with: bus up; or give --server\n" in cli("doctor").out


def test_the_doctor_with_another_server(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/healthz", {})
    bus.on("GET", "/readyz", [])
    assert "is not a bus" in cli("doctor").out


def test_the_doctor_reads_the_configuration(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    healthy(bus)
    config = tmp_path / "bus.toml"
    config.write_text("prot = 1\n")
    ran = cli("doctor", "--config", str(config))
    assert ran.code == 1
    assert "FAIL  configuration: unknown setting 'prot'" in ran.out


@pytest.mark.parametrize(
    ("text", "said"),
    [('store = "oracle://x"', "store = 'oracle://x': allowed are"), ('egress_allow = "300.0.0.0/8"', "egress_allow")],
)
def test_the_doctor_refuses_what_the_start_refuses(
    cli: Cli, bus: FakeBus, tmp_path: Path, text: str, said: str
) -> None:
    healthy(bus)
    config = tmp_path / "bus.toml"
    config.write_text(text)
    ran = cli("doctor", "--config", str(config))
    assert ran.code == 1
    assert f"FAIL  configuration: {said}" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["bus.toml"]


def test_the_doctor_asks_the_bus_that_is_configured(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(bus)
    monkeypatch.delenv("BUS_URL")
    config = tmp_path / "bus.toml"
    config.write_text(f'host = "0.0.0.0"\nport = {urlsplit(bus.url).port}\ndata = "{tmp_path}"\n')
    ran = cli("doctor", "--config", str(config))
    assert (ran.code, bus.asked[0].path) == (0, "/healthz")


def test_the_context_in_use_is_not_the_bus_that_is_configured(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(bus)
    monkeypatch.delenv("BUS_URL")
    monkeypatch.setattr("bus.cli.options.DEFAULT_URL", bus.url)
    monkeypatch.setattr("bus.cli.commands.doctor.DEFAULT_URL", bus.url)
    cli("context", "set", "there", "--server", "http://127.0.0.1:9", "--api-key", "secret")
    cli("context", "use", "there")
    for text in (f"port = {urlsplit(bus.url).port}\n", ""):
        (tmp_path / "bus.toml").write_text(text)
        assert cli("doctor", "--config", str(tmp_path / "bus.toml")).code == 0
    assert {asked.headers.get("authorization") for asked in bus.asked} == {None}
    assert "cannot reach http://127.0.0.1:9" in cli("doctor").out
    assert "cannot reach http://127.0.0.1:9" in cli("doctor", "--config", "x", "--context", "there").out


@pytest.mark.parametrize(("reserve", "code"), [(0, 0), (2**62, 1)])
def test_the_doctor_knows_the_reserve(
    cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reserve: int, code: int
) -> None:
    healthy(bus)
    monkeypatch.setenv("BUS_DISK_RESERVE", str(reserve))
    ran = cli("doctor", "--data", str(tmp_path))
    assert ran.code == code
    assert ("are reserved for outcomes -> free disk space" in ran.out) is bool(code)


def test_the_doctor_refuses_a_file_for_a_directory(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    healthy(bus)
    (tmp_path / "data").write_text("")
    ran = cli("doctor", "--data", str(tmp_path / "data"))
    assert ran.code == 1
    assert "data is not a directory" in ran.out


def test_the_doctor_looks_into_the_queues(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    healthy(bus)
    directory = left(tmp_path, "orders", "orders")
    ran = cli("doctor", "--data", str(tmp_path))
    assert ran.code == 0
    assert f"ok    spool {directory}: 2 records" in ran.out
    (directory / NAME).write_bytes(b"garbage" * 1000)
    ran = cli("doctor", "--data", str(tmp_path))
    assert ran.code == 1
    assert f"FAIL  spool {directory}: " in ran.out
    assert "docs/operations.md, Damaged files" in ran.out


def test_a_key_for_sending_only_is_well(cli: Cli, bus: FakeBus) -> None:
    healthy(bus)
    bus.on("GET", "/api/v1/destinations", (403, {"detail": "key x may not read", "status": 403}))
    ran = cli("doctor")
    assert ran.code == 0
    assert "ok    access: the key is valid, for sending only: key x may not read" in ran.out


def test_the_doctor_without_the_server_extra(
    cli: Cli, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy(bus)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert cli("doctor").code == 0
    ran = cli("doctor", "--config", str(tmp_path))
    assert ran.code == 1
    assert "pier-bus[server]" in ran.out
