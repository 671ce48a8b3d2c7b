"""Calls, metrics and variables that the docs name are those that there are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from bus.settings import Settings
from docs.site import endpoints, metrics
from tests.harness.process import ROOT
from tests.unit.docs.docs_pages import PAGES

CALL = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/(?:api/)?v1/[^\s`?|\"')\]]*)")
METRIC = re.compile(r"\b(bus_[a-z_]+)\b")
VARIABLE = re.compile(r"\bBUS_[A-Z_]+\b")
PLACE = re.compile(r"\{[^}]*\}|\bID\b|\bC\b|\bS\b|\bNAME\b|\bCODE\b|\bann\b")
# Of the SDK, the tests and the pages; and what stands for all settings.
OTHERS = {"BUS_", "BUS_URL", "BUS_API_KEY", "BUS_CONTEXT", "BUS_KEY", "BUS_TEST_MONGODB", "BUS_SOAK_MINUTES"}
# Served by lookup proxies alone, without a document.
OF_PROXIES = re.compile(r"/api/v1/lookup/")
NO_METRICS = re.compile(r"bus_(zone|session|rollup_\w*|pipeline_\w*|test\w*|process)$")


@cache
def calls() -> list[tuple[str, re.Pattern[str]]]:
    found = endpoints.operations(endpoints.document())
    return [(each.method, re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(each.path)))) for each in found]


@cache
def counted() -> frozenset[str]:
    names = set(re.findall(r"`(bus_\w+)`", "\n".join(metrics.of_processes())))
    return frozenset(names | {f"{name}{end}" for name in names for end in ("_bucket", "_sum", "_count")})


def called(method: str, path: str) -> bool:
    place = PLACE.sub("x", path.rstrip(".,;:"))
    return bool(OF_PROXIES.match(place)) or any(method == one and pattern.fullmatch(place) for one, pattern in calls())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_are_those_of_the_code(path: Path) -> None:
    text = path.read_text("utf-8")
    assert [f"{method} {place}" for method, place in CALL.findall(text) if not called(method, place)] == []
    assert {name for name in METRIC.findall(text) if not NO_METRICS.match(name)} - counted() == set()
    variables = {f"BUS_{name}".upper() for name in Settings.model_fields} | OTHERS
    assert set(VARIABLE.findall(text)) - variables == set()


def test_what_the_articles_ask_is_in_places_and_tests_that_exist() -> None:
    text = (ROOT / "docs" / "articles.md").read_text("utf-8")
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == []
    places = re.findall(r"`((?:bus|lookup|deploy|tests)/[\w/.]+)`", text)
    assert [place for place in places if not (ROOT / place).exists()] == []
