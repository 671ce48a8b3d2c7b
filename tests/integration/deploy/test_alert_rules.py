"""The rules of Prometheus, by its own tool: each alert comes when its condition lasts, and not before."""

from __future__ import annotations

import subprocess
from typing import Any, Final, NamedTuple

import pytest
import yaml

from bus.domain.health.rulebook import RULES
from deploy.prometheus.__main__ import FILE, text
from deploy.prometheus.rules import OWN, QUERIES, TOLD, document, name_of
from tests.servers import need
from tests.servers.prometheus import TOOL

ALL: Final = [rule for group in document()["groups"] for rule in group["rules"]]
LANE: Final = 'destination="orders", subscription="shop"'
PROCESS: Final = 'role="bus", instance="one"'


class Case(NamedTuple):
    """Series from minute to minute, from when on (minutes) the alert is there, and a time without it, or None."""

    alert: str
    series: dict[str, str]
    since: int
    quiet_at: int | None = 0


CASES: Final = [
    Case("PierRoleMissing", {f'bus_role{{name="{name}"}}': "1x60" for name in ("receiver", "compensator")}, 1),
    Case("PierPartDown", {'bus_degraded{part="kafka"}': "0x4 1x60"}, 6, 5),
    Case(
        "PierSpoolFull",
        {f'bus_spool_bytes{{spool="receiver", {PROCESS}}}': "70x4 85x60",
         f'bus_spool_limit_bytes{{spool="receiver", {PROCESS}}}': "100x64"},
        6, 5,
    ),
    Case("PierSpoolAge", {f'bus_spool_oldest_seconds{{spool="x", consumer="store", {PROCESS}}}': "0+60x60"}, 16, 14),
    Case("PierSpoolDamaged", {f'bus_spool_damaged{{spool="receiver", {PROCESS}}}': "0x4 1x60"}, 5, 4),
    Case("PierQuarantine", {'bus_quarantined_total{transport="kafka"}': "0x9 5x60"}, 11, 8),
    Case("PierBreakerOpen", {'bus_breaker_state{subscription="orders/shop"}': "0x4 2x60"}, 7, 6),
    Case("PierDead", {f"bus_deliveries_dead_total{{{LANE}}}": "0x9 5x60"}, 11, 8),
    Case(
        "PierBacklog",
        {f'bus_broker_backlog{{{LANE}, transport="kafka", cluster="", instance="one"}}': "6000x60",
         f'bus_broker_backlog{{{LANE}, transport="kafka", cluster="", instance="two"}}': "6000x60",
         f'bus_broker_backlog{{{LANE}, transport="direct", cluster="", instance="one"}}': "2000x4 4000x60"},
        10, 9,
    ),
    Case(
        "PierErrors",
        {f'bus_deliveries_total{{{LANE}, status="delivered"}}': "0+10x9 90+4x60",
         f"bus_delivery_attempt_seconds_count{{{LANE}}}": "0+10x70"},
        19, 12,
    ),
    Case(
        "PierSaturated",
        {'bus_permits_in_use{subscription="orders/shop"}': "3x4 16x60",
         'bus_permits_max{subscription="orders/shop"}': "16x64"},
        21, 19,
    ),
    Case("PierTurnedAway", {'bus_messages_turned_away_total{destination="a", reason="rate"}': "0x9 0+9x60"}, 12, 9),
    *(Case(
        name_of(name),
        {f'bus_alarm{{rule="{name}", severity="warning", {LANE}}}': "_x4 1x60"},
        6, 3,
    ) for name in TOLD),
    Case("PierIsWatchedFor", {"bus_role": "1x60"}, 0, None),
    Case("PierProcessDoesNotAnswer", {f'up{{job="pier", {PROCESS}}}': "1x4 0x60"}, 8, 6),
    Case("PierNobodyWatches", {'bus_role{name="receiver"}': "1x60"}, 3),
    Case("PierChannelIsDeaf", {'bus_alarm_notices_total{channel="ops", outcome="failed"}': "0x4 0+3x60"}, 9, 4),
    Case("PierTraceEventsAreLost", {'bus_events_lost_total{why="full"}': "0x4 9x60"}, 6, 3),
    Case(
        "PierEventLoopIsHeldUp",
        {f"bus_loop_stall_seconds_count{{{PROCESS}}}": "0x4 0+9x60",
         f'bus_loop_stall_seconds_bucket{{le="0.1", {PROCESS}}}': "0x4 0+1x60"},
        20, 9,
    ),
]  # fmt: skip


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = need("prometheus") / TOOL
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


def test_the_file_is_what_the_code_makes_and_prometheus_reads_it() -> None:
    assert FILE.read_text("utf-8") == text(), "run make dashboards"
    ran = promtool("check", "rules", FILE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(ALL)} rules found" in ran.stdout


def test_every_rule_of_the_bus_is_there() -> None:
    assert {*QUERIES, *TOLD} == set(RULES)
    assert {name_of(name) for name in RULES} | set(OWN) == {rule["alert"] for rule in ALL}
    assert {case.alert for case in CASES} == {rule["alert"] for rule in ALL}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Try all cases in one run, and return what the tool says of each that fails."""
    folder = tmp_path_factory.mktemp("rules")
    found = {}
    for case in CASES:
        path = folder / f"{case.alert}.yml"
        path.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "tests": [_as_test(case)]}))
        ran = promtool("test", "rules", path)
        found[case.alert] = "" if ran.returncode == 0 else ran.stdout + ran.stderr
    return found


@pytest.mark.parametrize("alert", [case.alert for case in CASES])
def test_an_alert_comes_when_its_condition_lasts(verdicts: dict[str, str], alert: str) -> None:
    assert not verdicts[alert], verdicts[alert]


def _as_test(case: Case) -> dict[str, Any]:
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    firing = f'count(ALERTS{{alertname="{case.alert}", alertstate="firing"}})'
    is_there = [{"labels": "{}", "value": 1}]
    looks = [{"expr": f"{firing} >= bool 1", "eval_time": f"{case.since}m", "exp_samples": is_there}]
    if case.quiet_at is not None:
        looks.append({"expr": firing, "eval_time": f"{case.quiet_at}m", "exp_samples": []})
    return {"interval": "1m", "input_series": series, "promql_expr_test": looks}
