"""The dashboards as files, and their queries against the metrics that the bus has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from bus.telemetry.metrics import REGISTRY
from deploy.grafana.__main__ import FOLDER, text, write
from deploy.grafana.pages import ALL
from deploy.grafana.panels import COLUMNS, Dashboard, document
from tests.unit.deploy.product import DEPLOY

# Given by the configuration of Prometheus, and by Prometheus itself.
OF_TARGETS = {"job", "instance", "role"}
ALARMS = [
    rule["expr"]
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]


def metrics() -> dict[str, set[str]]:
    """Return the labels of every series that a process of the bus may have."""
    found: dict[str, set[str]] = {"up": set()}
    for collector in REGISTRY._collector_to_names:
        labels = set(getattr(collector, "_labelnames", ()))
        told = [sample.name for family in collector.collect() for sample in family.samples]
        for name in REGISTRY._collector_to_names[collector] or told:
            found[name] = labels | ({"le"} if name.endswith("_bucket") else set())
    return found


def selectors(expression: str) -> list[tuple[str, set[str]]]:
    """Return each metric of an expression with the labels that it is selected by."""
    found = re.findall(r"\b(up|(?:bus|process)_\w+)\b(?:\{([^}]*)\})?(?!\s*=)", re.sub(r'"[^"]*"', '""', expression))
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", labels))) for name, labels in found]


def grouped(expression: str) -> set[str]:
    return {label.strip() for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(",")}


@pytest.mark.parametrize("dashboard", ALL, ids=lambda dashboard: dashboard.uid)
def test_files_are_those_that_the_code_makes(dashboard: Dashboard, tmp_path: Path) -> None:
    assert (FOLDER / f"{dashboard.uid}.json").read_text("utf-8") == text(dashboard), "run make dashboards"
    write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("expression", [*(query.expression for each in ALL for query in each.queries), *ALARMS])
def test_queries_name_metrics_and_labels_that_there_are(expression: str) -> None:
    known, named = metrics(), selectors(expression)
    assert named or expression == "vector(1)"
    labels = set(OF_TARGETS)
    for name, selected in named:
        assert name in known, name
        assert selected <= known[name] | OF_TARGETS, name
        labels |= known[name]
    assert grouped(expression) <= labels


@pytest.mark.parametrize("dashboard", ALL, ids=lambda dashboard: dashboard.uid)
def test_what_a_query_asks_for_can_be_chosen_and_its_names_are_there(dashboard: Dashboard) -> None:
    chosen = {variable.name for variable in dashboard.variables} | {"__rate_interval"}
    for query in dashboard.queries:
        assert set(re.findall(r"\$(\w+)", query.expression)) <= chosen
        names = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
        assert names <= grouped(query.expression) | OF_TARGETS
    for variable in dashboard.variables:
        (metric,) = selectors(variable.query)
        label = re.findall(r", (\w+)\)$", variable.query)[0]
        assert label in metrics()[metric[0]] | OF_TARGETS


@pytest.mark.parametrize("dashboard", ALL, ids=lambda dashboard: dashboard.uid)
def test_panels_lie_side_by_side_and_have_numbers_of_their_own(dashboard: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    panels = document(dashboard)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for place in (panel["gridPos"] for panel in panels):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert all(x < COLUMNS for x, _ in cells)
        assert not cells & taken
        taken |= cells


def test_grafana_is_told_where_the_files_and_the_figures_are() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text("utf-8"))["datasources"]
    assert source["type"] == "prometheus"
    for path in FOLDER.iterdir():
        made = json.loads(path.read_text("utf-8"))
        assert made["uid"] == path.stem
        assert made["templating"]["list"][0].items() >= {"type": "datasource", "query": source["type"]}.items()
