"""The site builds without a complaint, and whoever reads it asks nobody else for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.harness.process import ROOT

# What a browser fetches by itself; a link that a reader may follow is something else.
FETCHED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)"|<link\b[^>]*\bhref="([^"]+)[^>]*>""")
IN_STYLES = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//")


def built(folder: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "PYTHONPATH": f"{root}:{ROOT}", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(argv, cwd=root, env=env, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = built(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_the_docs_is_in_it(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in ROOT.glob("docs/**/*.md")}
    there = {path.relative_to(site) for path in site.rglob("*.html")}
    assert {path for path in pages if path.name != "README.html"} <= there
    assert {"cli", "http", "settings", "metrics", "alarms"} == {path.stem for path in (site / "reference").iterdir()}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    asked = [
        (path.name, place)
        for path in (*site.rglob("*.html"), *site.rglob("*.css"))
        for pattern in (FETCHED, IN_STYLES)
        for found in pattern.findall(path.read_text("utf-8"))
        for place in found
        if ELSEWHERE.match(place)
    ]
    assert asked == []


def test_marks_of_examples_are_not_seen(site: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", (site / "tutorial.html").read_text("utf-8"), flags=re.DOTALL)
    assert "terminal: " not in text


def test_it_is_built_where_git_does_not_look() -> None:
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    folder = re.search(r"^site_dir: (\S+)$", config, re.MULTILINE)
    assert folder is not None
    ignored = subprocess.run(["git", "check-ignore", "--quiet", folder[1]], cwd=ROOT, check=False)
    assert ignored.returncode == 0
    assert yaml.safe_load(config.split("markdown_extensions:")[0])["theme"]["font"] is False


@pytest.mark.proof
def test_a_link_to_a_heading_that_is_not_there_fails_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for path in (*ROOT.glob("*.md"), ROOT / "mkdocs.yml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "docs" / "events.md").write_text("# Events\n\n[a](kafka.md#no-such-heading)\n")
    done = built(tmp_path / "site", tmp_path)
    assert done.returncode == 1
    assert "no-such-heading" in done.stderr
