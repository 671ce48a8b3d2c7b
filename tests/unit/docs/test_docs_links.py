"""Every link in the docs leads to a file that is there, and to a heading that it has; without a network."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path

import pytest

from docs.site.links import headings, in_site, slug, targets
from tests.harness.process import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


@cache
def anchors(path: Path) -> frozenset[str]:
    return frozenset(headings(path.read_text("utf-8")))


def broken(path: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    found = []
    for target in targets(path.read_text("utf-8")):
        if ELSEWHERE.match(target):
            continue
        place, _, anchor = target.partition("#")
        other = Path(posixpath.normpath(path.parent / place)) if place else path
        if not other.exists() or not other.is_relative_to(ROOT):
            found.append(f"{target}: there is no such file")
        elif anchor and anchor not in anchors(other):
            found.append(f"{target}: there is no such heading")
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = ROOT / "docs" / "nowhere.md"
    text = "[a](kafka.md#settings) [b](kafka.md#no-such) [c](no.md) `[d](no.md)` [e](https://x.invalid/)\n"
    assert list(targets(text)) == ["kafka.md#settings", "kafka.md#no-such", "no.md", "https://x.invalid/"]
    assert "settings" in anchors(page.with_name("kafka.md"))
    assert "no-such" not in anchors(page.with_name("kafka.md"))


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ('Where does a new line go? The first "yes" wins', "where-does-a-new-line-go-the-first-yes-wins"),
        ("17. What is proven, and by whom", "17-what-is-proven-and-by-whom"),
        ("`bus` and [Kafka](kafka.md)", "bus-and-kafka"),
    ],
)
def test_headings_have_the_anchors_that_github_gives_them(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_a_comment_in_a_block_is_no_heading() -> None:
    assert list(headings("# A\n```sh\n# not one\n```\n## A\n")) == ["a", "a-1"]


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("index.md", "[a](docs/kafka.md#settings)", "[a](kafka.md#settings)"),
        ("index.md", "[a](docs/adr) ![b](docs/images/b.png)", "[a](adr/index.md) ![b](images/b.png)"),
        ("howto/upgrade.md", "[a](../../CHANGELOG.md) [b](../upgrades.md)", "[a](../changelog.md) [b](../upgrades.md)"),
        ("lookup.md", "see [`nginx.conf`](../deploy/lookup/nginx.conf)", "see `nginx.conf`"),
        ("lookup.md", "[a](#here) [b](https://x.invalid/y)", "[a](#here) [b](https://x.invalid/y)"),
        ("reference/cli.md", "[a](../configuration.md)", "[a](../configuration.md)"),
        ("lookup.md", "```\n[a](../deploy/x)\n```", "```\n[a](../deploy/x)\n```"),
    ],
)
def test_the_site_has_links_of_its_own(place: str, text: str, expected: str) -> None:
    assert in_site(text, place) == expected + "\n"


def test_files_that_the_threat_model_names_are_there() -> None:
    named = re.findall(r"`((?:tests|bus|admin)/[\w/.]+)`", (ROOT / "SECURITY.md").read_text("utf-8"))
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    """The build of the site says so, too; here it is said at once."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert {page for page in pages if not page.startswith("adr/") and f"{page}\n" not in nav} == set()
