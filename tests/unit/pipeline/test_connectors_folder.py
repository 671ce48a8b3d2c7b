"""The folder of the connectors' jars: nothing but jars is ever replaced there."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bus.cli import run

POM = "{http://maven.apache.org/POM/4.0.0}"
MAVEN = """#!/bin/sh
for word; do case "$word" in -DoutputDirectory=*) folder="${word#*=}" ;; esac; done
mkdir -p "$folder"
cp "$4" "${0%/*}/pom.xml"
for jar in spark-kafka-4.jar mongo-spark-10.jar; do echo new > "$folder/$jar"; done
"""


@pytest.fixture(autouse=True)
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that copies jars as Maven does."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN, "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jars"
    made.mkdir()
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_that_is_not_there_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "connectors", str(tmp_path / "some" / "jars")]) == 0
    assert names(tmp_path / "some" / "jars") == ["mongo-spark-10.jar", "spark-kafka-4.jar"]
    assert "2 jars" in capsys.readouterr().out


def test_maven_is_asked_for_every_source_and_for_nothing_that_spark_brings(tmp_path: Path) -> None:
    assert run(["pipeline", "connectors", str(tmp_path / "jars")]) == 0
    asked = ET.parse(tmp_path / "bin" / "pom.xml").getroot()
    found = {of(each, "artifactId"): each for each in asked.iter(f"{POM}dependency")}
    wanted = {"spark-sql-kafka-0-10_2.13", "mongo-spark-connector_2.13", "hadoop-aws", "spark-hadoop-cloud_2.13"}
    assert wanted | {"s3", "s3-transfer-manager", "sts"} == set(found)
    for each in found.values():
        left_out = {of(one, "groupId") for one in each.iter(f"{POM}exclusion")}
        assert left_out == {"*"} or {"org.apache.hadoop", "org.slf4j", "io.netty", "org.scala-lang"} <= left_out


def of(element: ET.Element, name: str) -> str:
    text = element.findtext(f"{POM}{name}")
    assert text
    return text


def test_a_maven_that_copies_nothing_takes_nothing_away(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin" / "mvn").write_text("#!/bin/sh\n", "utf-8")
    (folder / "spark-kafka-4.jar").write_text("old")
    assert run(["pipeline", "connectors", str(folder)]) == 1
    assert names(folder) == ["spark-kafka-4.jar"]
    assert "copied no jars" in capsys.readouterr().err


def test_jars_are_replaced_in_the_folder_that_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "spark-kafka-3.jar").write_text("old")
    (folder / "spark-kafka-4.jar").write_text("old")
    before = folder.stat().st_ino
    monkeypatch.chdir(folder)
    assert run(["pipeline", "connectors", "."]) == 0
    assert names(folder) == ["mongo-spark-10.jar", "spark-kafka-4.jar"]
    assert (folder / "spark-kafka-4.jar").read_text() == "new\n"
    assert folder.stat().st_ino == before
    assert names(folder.parent) == ["bin", "jars"]


@pytest.mark.parametrize("other", ["notes.txt", ".env", "sources.jar/a", "data/events"])
def test_a_folder_with_anything_else_is_left_as_it_is(
    folder: Path, other: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / other
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    (folder / "spark-kafka-3.jar").write_text("old")
    monkeypatch.chdir(folder)
    for given in (".", str(folder)):
        assert run(["pipeline", "connectors", given]) == 1
        told = capsys.readouterr().err
        assert other.partition("/")[0] in told
        assert "hint" in told
    assert (path.read_text(), (folder / "spark-kafka-3.jar").read_text()) == ("mine", "old")
    assert names(folder) == sorted([other.partition("/")[0], "spark-kafka-3.jar"])


def test_a_file_is_no_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "jars").write_text("mine")
    assert run(["pipeline", "connectors", str(folder / "jars")]) == 1
    assert "is no folder" in capsys.readouterr().err
    assert (folder / "jars").read_text() == "mine"
