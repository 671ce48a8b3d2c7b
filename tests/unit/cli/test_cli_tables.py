"""Tables on terminals of any width, and elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from docs.site.commands import leaves
from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

ID = "019a0000-0000-7000-8000-000000000001"
COLUMNS = (
    "id\tdestination\tstatus\tbiz_id\tsource\treceived_at\tcompleted_at\tbytes\tdelivered\tsubscriptions"
    "\tattempts\tnext_attempt_at"
)
MESSAGE = {
    "id": ID,
    "destination": "order.cancelled",
    "status": "dead",
    "delivered": 2,
    "subscriptions": 3,
    "biz_id": "order 42 of shop 7",
    "source": "order-service",
    "received_at": "2026-01-31T12:00:00.000Z",
    "completed_at": "2026-01-31T12:00:01.000Z",
    "bytes": 13,
    "attempts": 9,
}
SAYING = "deliveries of the subscription shop are retried for longer than they may be"
ALARM = {
    "id": ID,
    "state": "open",
    "severity": "warning",
    "cause": "part:kafka",
    "opened_at": "2026-01-31T12:00:00.000Z",
    "closed_at": None,
    "alarms": [{"what": SAYING, "cures": []}],
    "left_out": 0,
}
# Every command that takes --json, but those that do not print a table for people.
WITHOUT_TABLES = {
    *("up", "run", "send", "export", "listen", "apply", "doctor", "backup", "restore", "agent"),
    *("destination set", "destination show", "destination rm", "secrets status", "secrets reseal"),
    *(
        "subscription set",
        "subscription show",
        "subscription rotate-secret",
        "subscription sample",
        "subscription pause",
        "subscription resume",
        "subscription rm",
    ),
    *("ordering resume", "ordering skip", "ordering release", "ordering abandon", "ordering release-producer"),
    *("alarms show", "alarms ack", "alarms silence", "alarms unsilence"),
    *("key create", "key set", "key revoke", "user add", "user reset-password", "user block", "user unblock"),
    *("user rm", "pipeline rollup", "pipeline rebuild", "pipeline compact", "pipeline replay", "pipeline connectors"),
    "pipeline prepare",
    *("context show", "context use", "context set", "context delete"),
    "pipeline serve",
}


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the command line write to a terminal of so many columns."""

    def of(columns: int) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(columns))

    return of


def lines(text: str) -> list[str]:
    """Return what a terminal shows."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


@pytest.fixture
def messages(bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [MESSAGE], "next": None, "searched": {}})


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("columns", range(60, 220, 7))
def test_what_does_not_fit_is_left_out_whole(cli: Cli, terminal: Any, columns: int) -> None:
    terminal(columns)
    head, _, row, *left = lines(cli("search").out)
    assert len(row) <= columns
    shown = head.split()
    assert row.startswith(ID)
    assert ("order 42 of shop 7" in row) == ("biz_id" in shown) == (columns >= 36 + 2 + 6 + 2 + 20 + 2 + 18)
    missing = [name for name in COLUMNS.split("\t") if name not in shown]
    assert left == ([f"hidden columns: {', '.join(missing)}; show them with --wide or --columns"] if missing else [])


@pytest.mark.usefixtures("messages")
def test_a_narrow_terminal_has_the_id_then_the_state_then_the_time(cli: Cli, terminal: Any) -> None:
    terminal(20)
    assert lines(cli("search").out)[0].split() == ["id"]
    terminal(50)
    assert lines(cli("search").out)[0].split() == ["id", "status"]
    terminal(80)
    head, _, row, _ = lines(cli("search").out)
    assert head.split() == ["id", "status", "received_at", "bytes"]
    assert row.split() == [ID, "dead", "2026-01-31", "12:00:00Z", "13"]
    terminal(103)
    assert lines(cli("search").out)[0].split() == ["id", "destination", "status", "biz_id", "received_at"]


@pytest.mark.usefixtures("messages")
@pytest.mark.parametrize("option", [["--wide"], ["--columns", "received_at"]])
def test_all_columns_and_chosen_ones_have_exact_times(cli: Cli, terminal: Any, option: list[str]) -> None:
    terminal(80)
    assert MESSAGE["received_at"] in lines(cli("search", *option).out)[2]


@pytest.mark.usefixtures("messages")
def test_wide_shows_all_in_one_line(cli: Cli, terminal: Any) -> None:
    terminal(40)
    head, _, row = lines(cli("search", "--wide").out)
    assert head.split() == COLUMNS.split("\t")
    assert row.split()[-1] == "-"
    assert len(row) > 40


@pytest.mark.usefixtures("messages")
def test_columns_are_chosen_and_ordered(cli: Cli, terminal: Any) -> None:
    assert cli("search", "--columns", "status, id,status").out == f"status\tid\ndead\t{ID}\n"
    terminal(20)
    shown = lines(cli("search", "--columns", "received_at,id").out)
    assert (shown[0].split(), shown[2].split()[1], len(shown)) == (["received_at", "id"], ID, 3)
    assert cli("search", "--columns", "status", "--json").json["items"] == [MESSAGE]


@pytest.mark.usefixtures("messages")
def test_elsewhere_all_columns_come(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert cli("search").out.splitlines()[0] == COLUMNS


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("stat", "there is no column 'stat'; did you mean status? columns: id, destination, status, "),
        ("id,zzz", "there is no column 'zzz'; columns: id, destination, status, "),
        ("", "there is no column ''; columns: id, "),
    ],
)
def test_an_unknown_column_is_told_which_there_are(cli: Cli, bus: FakeBus, asked: str, said: str) -> None:
    ran = cli("search", "--columns", asked)
    assert (ran.code, ran.out, ran.err.count("\n"), bus.asked) == (2, "", 1, [])
    assert f"Invalid value for --columns: {said}" in ran.err


def test_nothing_is_done_before_a_usage_error(cli: Cli, bus: FakeBus) -> None:
    assert cli("resend", ID, "--columns", "x").code == 2
    assert cli("lookup", "pause", "orders-1", "--columns", "x", "--url", bus.url).code == 2
    assert bus.asked == []


def test_sentences_take_several_lines_and_ids_do_not(cli: Cli, bus: FakeBus, terminal: Any) -> None:
    bus.on("GET", "/api/v1/alarms", {"items": [ALARM], "watched": True})
    terminal(80)
    _, _, *rows, left = lines(cli("alarms", "list").out)
    assert ID in rows[0]
    assert " ".join(row[17:42].strip() for row in rows) == SAYING
    assert left.startswith("hidden columns: alarms, jobs, cause, opened_at, closed_at;")
    shown = lines(cli("alarms", "list", "--wide").out)
    assert (SAYING in shown[2], len(shown)) == (True, 3)


def test_of_several_tables_each_has_what_it_has(cli: Cli, bus: FakeBus) -> None:
    lane = {"destination": "orders", "subscription": "shop", "backlog": 7, "oldest": None}
    overview = {
        "now": {"p99_ms": 3},
        "alarms": [],
        "subscriptions": [lane],
        "left_out": {"subscriptions": 0},
        "processes": None,
    }
    bus.on("GET", "/api/v1/overview", overview)
    ran = cli("status", "--columns", "queued,subscription")
    assert ran.out == "subscriptions\nqueued\tsubscription\n7\tshop\n"


def test_no_color_is_obeyed(cli: Cli, bus: FakeBus, terminal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.on("GET", "/api/v1/messages", {"items": [MESSAGE], "next": None, "searched": {}})
    terminal(80)
    assert "\x1b[1;31mdead" in cli("search").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3\d", cli("search").out)
    assert "\x1b" not in cli("search", "--help").out


def test_every_command_with_a_table_has_the_options() -> None:
    for path, command in leaves():
        options = {option for each in command.params for option in each.opts}
        is_plain = path.removeprefix("bus ") in WITHOUT_TABLES
        assert {"--wide", "--columns"} <= options or is_plain, path
        assert not ({"--wide", "--columns"} & options and is_plain), path
