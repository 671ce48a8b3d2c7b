"""The supply chain of the product: accepted licences, the bill of materials, and audits."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from cyclonedx.validation.json import JsonStrictValidator

from tests.harness.process import free_port
from tests.supply.audit import Found, audit
from tests.supply.bill import SCHEMA, bill
from tests.supply.installed import product
from tests.supply.licences import complaints, is_allowed, licence_of, rules

FAULT = {
    "id": "GHSA-made-up",
    "summary": "made up",
    "details": "made up",
    "affected": [
        {
            "package": {"name": "six", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.18.0"}]}],
        }
    ],
}


def package(*classifiers: str, **fields: str) -> SimpleNamespace:
    """Return a package that says this of its licence."""
    metadata = Message()
    for name, value in fields.items():
        metadata[name.replace("_", "-")] = value
    for each in classifiers:
        metadata["Classifier"] = f"License :: OSI Approved :: {each}"
    return SimpleNamespace(metadata=metadata)


@pytest.mark.parametrize(
    ("licence", "met"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("LicenseRef-Proprietary", False),
        ("whatever they like", False),
    ],
)
def test_one_of_several_licences_is_enough_and_of_all_none_may_be_missing(licence: str, met: bool) -> None:
    assert is_allowed(licence, rules()["allowed"]) is met


@pytest.mark.parametrize(
    ("said", "licence"),
    [
        (package("BSD License", License_Expression="MIT"), "MIT"),
        (package(License="Apache 2.0"), "Apache-2.0"),
        (package("MIT License", License="Copyright, and then all of its text, which no table has " * 9), "MIT"),
        (package("MIT License", "Apache Software License"), "MIT AND Apache-2.0"),
        (package("GNU General Public License (GPL)"), "LicenseRef-GNU-General-Public-License--GPL-"),
        (package(), ""),
    ],
)
def test_a_licence_is_what_the_package_says(said: SimpleNamespace, licence: str) -> None:
    assert licence_of("some", said) == licence


def test_who_has_another_licence_is_named() -> None:
    found = complaints({"fine": package(License="MIT"), "bad": package(License="GPL-3.0-only"), "mute": package()})
    assert [line.split()[0] for line in found] == ["bad", "mute"]
    assert "GPL-3.0-only" in found[0]


def test_all_licences_of_the_product_are_allowed() -> None:
    assert complaints(product()) == []


def test_the_bill_has_the_whole_product_and_nothing_of_its_tests() -> None:
    text = bill(product())
    assert JsonStrictValidator(SCHEMA).validate_str(text) is None
    found = json.loads(text)
    names = {part["name"] for part in found["components"]}
    assert {"nicegui", "starlette", "aiokafka", "pyspark"} <= names
    assert names.isdisjoint({"pytest", "mypy", "schemathesis", "pip-audit", "mkdocs"})
    assert found["metadata"]["component"]["name"] == "pier-bus"
    needed = {each["ref"]: each.get("dependsOn", []) for each in found["dependencies"]}
    assert any(ref.startswith("pkg:pypi/httpx@") for ref in needed["pier-bus"])
    assert all(part["licenses"] for part in found["components"])


class _Advisories(ThreadingHTTPServer):
    """A service of advisories that knows these, and counts who asks."""

    def __init__(self, faults: list[object]) -> None:
        self.faults = faults
        self.asked = 0
        super().__init__(("127.0.0.1", 0), _Answering)


class _Answering(BaseHTTPRequestHandler):
    server: _Advisories

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        body = json.dumps({"vulns": self.server.faults} if self.server.faults else {}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def advisories(*faults: object) -> Iterator[_Advisories]:
    with _Advisories(list(faults)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """Return a file with one package."""
    path = tmp_path / "pinned.txt"
    path.write_text("six==1.17.0\n")
    return path


@pytest.mark.parametrize(("faults", "found"), [([], []), ([FAULT], ["six 1.17.0: GHSA-made-up, fixed in 1.18.0"])])
def test_an_answer_is_kept_for_the_day(tmp_path: Path, pinned: Path, faults: list[object], found: list[str]) -> None:
    with advisories(*faults) as server:
        url = f"http://127.0.0.1:{server.server_port}/v1/query"
        assert audit(tmp_path / "kept", pinned=pinned, url=url) == Found(found)
        assert audit(tmp_path / "kept", pinned=pinned, url=url) == Found(found)
    assert server.asked == 1


def test_a_service_that_is_away_is_told_of_and_nothing_is_kept(tmp_path: Path, pinned: Path) -> None:
    found = audit(tmp_path / "kept", pinned=pinned, url=f"http://127.0.0.1:{free_port()}/v1/query")
    assert (found.findings, bool(found.away)) == ((), True)
    assert not (tmp_path / "kept").exists()


def test_what_cannot_be_asked_at_all_fails(tmp_path: Path, pinned: Path) -> None:
    pinned.write_text("this is no requirement\n")
    with pytest.raises(RuntimeError, match="pip-audit fails"):
        audit(tmp_path / "kept", pinned=pinned)
