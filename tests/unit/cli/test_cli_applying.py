"""``bus apply`` and ``bus export configuration``: sets in files, what differs, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

PATH = "/api/v1/configuration"
CHANGES = [
    {"change": "made", "resource": "destinations/orders", "fields": {}},
    {"change": "changed", "resource": "rates", "fields": {"receiver": {"before": None, "after": 5.0}}},
    {"change": "removed", "resource": "destinations/paid/subscriptions/a", "fields": {}, "waiting": 7},
]


def test_a_folder_is_put_as_one_set_and_what_differs_is_said(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text('[[destinations]]\ncode = "paid"\n[rates]\nreceiver = 5.0\n')
    (tmp_path / "a.json").write_text('{"destinations": [{"code": "orders"}]}')
    bus.on("PUT", PATH, {"version": 3, "dry_run": False, "changes": CHANGES, "secrets": {"orders/a": "whsec_x"}})
    ran = cli("apply", str(tmp_path), "--prune")
    assert ran.code == 0
    assert bus.asked[-1].body == {"destinations": [{"code": "orders"}, {"code": "paid"}], "rates": {"receiver": 5.0}}
    assert ran.out.splitlines() == [
        "+ destinations/orders",
        "~ rates",
        "    receiver: null -> 5.0",
        "- destinations/paid/subscriptions/a  (7 open deliveries are canceled)",
        "secret of orders/a, shown once: whsec_x",
        "3 changed",
    ]


@pytest.mark.parametrize(("changes", "code"), [(CHANGES, 3), ([], 0)])
def test_a_dry_run_says_by_its_code_whether_something_differs(
    cli: Cli, bus: FakeBus, tmp_path: Path, changes: list[object], code: int
) -> None:
    path = tmp_path / "set.json"
    path.write_text("{}")
    bus.on("PUT", PATH, {"version": 3, "dry_run": True, "changes": changes})
    assert cli("apply", str(path), "--dry-run").code == code
    assert cli("apply", str(path), "--dry-run", "--json").json["changes"] == changes


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.json": '{"destinations": [{"code": "x"}]}', "b.json": '{"destinations": [{"code": "x"}]}'}, "'x' is in"),
        ({"a.json": "{"}, "is not JSON"),
        ({"a.toml": "="}, "is not TOML"),
        ({"a.json": '{"destinations": 1}'}, "no list of destinations"),
        ({}, "contains no .json or .toml files"),
    ],
)
def test_files_that_make_no_set_are_refused_before_anything_is_asked(
    cli: Cli, bus: FakeBus, tmp_path: Path, files: dict[str, str], said: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    ran = cli("apply", str(tmp_path))
    assert ran.code == 1
    assert said in ran.err
    assert not bus.asked


def test_the_configuration_is_written_without_its_version(cli: Cli, bus: FakeBus, tmp_path: Path) -> None:
    bus.on("GET", PATH, {"version": 8, "destinations": [{"code": "orders", "subscriptions": []}]})
    bus.on("PUT", PATH, {"version": 8, "dry_run": False, "changes": []})
    path = tmp_path / "set.json"
    assert cli("export", "configuration", "-o", str(path)).code == 0
    assert path.read_text().startswith('{\n  "destinations": [\n')
    assert cli("apply", str(path)).out == "no changes\n"
    assert bus.asked[-1].body == {"destinations": [{"code": "orders", "subscriptions": []}]}
