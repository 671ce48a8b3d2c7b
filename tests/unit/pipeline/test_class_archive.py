"""The archive of Spark's classes, and when Java is to map it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.class_archive import archive_file, mapping_options


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a Java of its own."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def _kept() -> Path:
    file = archive_file()
    assert file is not None
    file.parent.mkdir(parents=True, mode=0o700)
    file.touch(0o444)
    return file


def test_it_is_mapped_once_it_is_there(home: Path) -> None:
    assert mapping_options() == []
    file = _kept()
    assert file.parent == home / "cache" / "pier" / "java"
    assert f"-XX:SharedArchiveFile={file}" in mapping_options()


@pytest.mark.parametrize("others_may_write", ["", ".."])
def test_one_that_others_may_write_or_replace_is_not(others_may_write: str) -> None:
    file = _kept()
    (file / others_may_write).resolve().chmod(0o777)
    assert mapping_options() == []


def test_another_java_and_another_spark_have_another(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = archive_file()
    os.utime(home / "jdk" / "bin" / "java", (0, 0))
    after = archive_file()
    (home / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(home / "spark"))
    assert len({before, after, archive_file()}) == 3
    os.utime(home / "spark" / "jars", (0, 0))
    assert archive_file() not in (before, after, None)


@pytest.mark.parametrize(
    ("name", "value"), [("XDG_CACHE_HOME", "/home/a user"), ("JAVA_HOME", "/nowhere"), ("SPARK_HOME", "/nowhere")]
)
def test_there_is_none_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert archive_file() is not None
    monkeypatch.setenv(name, value)
    assert archive_file() is None
    assert mapping_options() == []


def test_there_is_none_where_nobody_has_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert archive_file() is None
