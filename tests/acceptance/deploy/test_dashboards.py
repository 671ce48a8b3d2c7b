"""Every query of every dashboard and alarm has data on a real Prometheus that scrapes a bus at work."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from deploy.grafana.__main__ import FOLDER
from deploy.grafana.pages import ALL
from tests.harness.bus_process import BusProcess
from tests.harness.lookup_proxy import LookupProxy, routes
from tests.harness.process import ROOT, free_port
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import grafana_schema, need, nsq
from tests.servers.prometheus import TOOL, PrometheusServer

PROMETHEUS = ROOT / "deploy" / "prometheus"
# What has no series before it happened, and does not happen here: groups of brokers, a full disk, partitions of NSQ.
UNSEEN = (
    "bus_chain_role",
    "bus_chain_moves_total",
    "bus_messages_written_again_total",
    "bus_messages_fallback_total",
    "bus_ordered_redeliveries_total",
    'result="failed"',
)
CHOSEN = {"$destination": ".+", "$subscription": ".+", "$instance": ".+", "$__rate_interval": "1m"}


class Live(NamedTuple):
    """A bus with what goes well and what fails, a sweeper, a lookup proxy, and a Prometheus that scrapes them."""

    bus: BusProcess
    prometheus: PrometheusServer


def filled(expression: str) -> str:
    """Return a query as Grafana sends it."""
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    return expression


def scraping(targets: dict[str, str]) -> str:
    """Return the configuration of ``deploy``, of these targets by role in place of names that only containers have."""
    settings: dict[str, Any] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["rule_files"] = [str(PROMETHEUS / "alerts.yml")]
    (job,) = settings["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [
        {"targets": [address], "labels": {"__meta_dns_name": role}} for role, address in targets.items()
    ]
    return str(yaml.safe_dump(settings))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    with ExitStack() as stack:
        servers = stack.enter_context(nsq.running(need("nsq"), folder / "nsq"))
        subscriber = stack.enter_context(SubscriberProcess(folder, "/broken=fail:1,status:500"))
        env = {
            "BUS_STORE": f"sqlite:///{folder}/store",
            "BUS_NSQ_NSQD": servers.places.nsqd,
            "BUS_NSQ_LOOKUPD": servers.places.lookupd,
        }
        bus = stack.enter_context(BusProcess(folder / "bus", env=env))
        sweeper = stack.enter_context(BusProcess(folder / "sweeper", role="sweeper", env=env))
        clusters = {"here": servers.places.lookupd.split(","), "away": [f"127.0.0.1:{free_port()}"]}
        both = routes(default={"#C": list(clusters), "#P": "here"})
        proxy = stack.enter_context(LookupProxy(folder / "lookup", clusters, both))
        targets = {"bus": bus.url, "sweeper": sweeper.url, "lookup": proxy.bus.url}
        addresses = {role: url.removeprefix("http://") for role, url in targets.items()}
        server = PrometheusServer(need("prometheus"), folder / "prometheus", scraping(addresses))
        prometheus = stack.enter_context(server)
        _work(bus, subscriber, servers)
        _look_up(proxy)
        yield Live(bus, prometheus)


def _work(bus: BusProcess, subscriber: SubscriberProcess, servers: nsq.NsqServers) -> None:
    """Send what is delivered, given up, refused, retried, wrongly filtered, and put a foreign record on the broker."""
    admin = bus.admin
    admin.destination("orders", transport="nsq")
    admin.subscription("orders", "shop", subscriber.url("/shop"), filter="abs(body) > `1`")
    admin.destination("refunds")
    admin.subscription("refunds", "broken", subscriber.url("/broken"), retry=["100ms"], retry_max_attempts=1)
    admin.subscription("refunds", "later", subscriber.url("/broken"), retry=["1h"])
    admin.subscription("refunds", "gone", f"http://127.0.0.1:{free_port()}/")
    admin.destination("limited", rate=0.01, burst=1)
    for _ in range(10):
        assert admin.send("orders", b"{}").status_code == 202
        assert admin.send("refunds", b"{}").status_code == 202
    assert [admin.send("limited", b"{}").status_code for _ in range(2)] == [202, 429]
    wait_until(lambda: len(subscriber.calls("/shop")) == 10, within=30, what="delivered")
    server = next(server for server in servers.nsqds if server.topics())
    server.call("/pub", b"not of the bus", topic=server.topics()[0])


def _look_up(proxy: LookupProxy) -> None:
    for topic in ("orders", "orders", "none"):
        proxy.get(f"/lookup?topic={topic}")


def _silent(live: Live, expressions: list[str]) -> Callable[[], bool]:
    """Return a check that all expressions but those of what is unseen have data; it forgets those that had."""

    def check() -> bool:
        expressions[:] = [one for one in expressions if not live.prometheus.query(one)]
        return not expressions

    return check


def test_every_panel_has_data(live: Live) -> None:
    queries = [filled(query.expression) for dashboard in ALL for query in dashboard.queries]
    expected = [one for one in queries if not any(unseen in one for unseen in UNSEEN)]
    assert len(expected) > 60
    wait_until(_silent(live, expected), within=60, what="all have data", every=1, state=lambda: "\n".join(expected))
    for one in set(queries) - set(expected):
        live.prometheus.query(one)  # it is one that Prometheus understands


def test_the_metric_that_dispatchers_are_scaled_by_has_data(live: Live) -> None:
    (rule,) = yaml.safe_load((PROMETHEUS / "adapter.yml").read_text("utf-8"))["externalRules"]
    assert live.prometheus.query(rule["seriesQuery"])
    (found,) = live.prometheus.query(rule["metricsQuery"])
    assert float(found["value"][1]) >= 0


def test_what_is_called_unseen_is_unseen(live: Live) -> None:
    samples = [line for line in live.bus.admin.metrics().splitlines() if not line.startswith("#")]
    assert not [line for line in samples for unseen in UNSEEN if unseen in line]


def test_every_process_is_scraped_and_known_by_its_role(live: Live) -> None:
    def troubles() -> dict[str, str]:
        targets = live.prometheus.targets()
        return {target["labels"]["role"]: target["lastError"] or target["health"] for target in targets}

    well = dict.fromkeys(("bus", "sweeper", "lookup"), "up")
    wait_until(lambda: troubles() == well, within=20, what="all are up", state=troubles)


def test_alarms_are_evaluated_and_those_that_are_due_go_off(live: Live) -> None:
    def alarms() -> dict[str, str]:
        answer = httpx.get(f"{live.prometheus.url}/api/v1/rules", trust_env=False).json()
        rules = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
        assert all(rule.get("lastError", "") == "" for rule in rules)
        return {rule["name"]: rule["state"] for rule in rules}

    wait_until(lambda: alarms()["PierBreakerOpen"] == "pending", within=40, what="an open breaker", state=alarms)
    assert alarms()["PierRoleMissing"] == "inactive"
    assert alarms()["PierSpoolDamaged"] == "inactive"


@pytest.mark.parametrize("name", ["prometheus.yml", "kubernetes.yml"])
def test_configurations_are_those_of_prometheus(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = yaml.safe_load((PROMETHEUS / name).read_text("utf-8"))
    settings["rule_files"] = [str(PROMETHEUS / file) for file in settings["rule_files"]]
    for job in settings["scrape_configs"]:
        job.pop("kubernetes_sd_configs", None)  # Debian's Prometheus is built without
    (tmp_path / name).write_text(yaml.safe_dump(settings), "utf-8")
    tool = [need("prometheus") / TOOL, "check", "config", tmp_path / name]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_are_of_the_type_that_grafana_has_for_them(tmp_path: Path) -> None:
    folder, texts = need("grafana_schema"), [path.read_text("utf-8") for path in sorted(FOLDER.iterdir())]
    assert grafana_schema.complaints(folder, tmp_path, texts) == ""
    broken = texts[0].replace('"schemaVersion": 39', '"schemaVersion": "new"')
    assert "'string' is not assignable to type 'number'" in grafana_schema.complaints(folder, tmp_path, [broken])
