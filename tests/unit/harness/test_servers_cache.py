"""Installations are whole or absent, built once, and their absence is a skip or a failure."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.servers import KNOWN, InstallFailed, Known, missing, need
from tests.servers.cache import cache_dir, install_once, run
from tests.servers.payloads import canonical, read


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUS_TEST_CACHE", str(tmp_path / "cache"))
    return cache_dir()


def test_what_was_built_is_found_again() -> None:
    built: list[Path] = []

    def build(work: Path) -> None:
        built.append(work)
        (work / "program").write_text("x")

    first, second = install_once("s", build, about=""), install_once("s", build, about="")
    assert first == second == cache_dir() / "s"
    assert (first / "program").read_text() == "x"
    assert len(built) == 1


def test_a_failed_build_leaves_nothing(cache: Path) -> None:
    def build(work: Path) -> None:
        (work / "half").write_text("x")
        raise InstallFailed("no")

    with pytest.raises(InstallFailed):
        install_once("s", build, about="")
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_what_a_killed_build_left_is_removed(cache: Path) -> None:
    (cache / ".s.leftover").mkdir(parents=True)
    install_once("s", lambda _: None, about="")
    assert {path.name for path in cache.iterdir() if path.is_dir()} == {"s"}


def test_builds_at_the_same_time_build_once() -> None:
    built: list[Path] = []
    threads = [threading.Thread(target=install_once, args=("s", built.append), kwargs={"about": ""}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_a_step_that_fails_says_what_it_printed() -> None:
    with pytest.raises(InstallFailed, match=r"(?s)exit code 3.*the reason"):
        run(["sh", "-c", "echo the reason >&2; exit 3"])
    with pytest.raises(InstallFailed, match="no-such-program is needed"):
        run(["no-such-program"])
    assert run(["echo", "fine"]) == "fine\n"


def test_absent_is_a_skip_on_a_laptop_and_a_failure_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "absent", Known("", lambda: None, Path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install absent"):
        need("absent")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install absent"):
        need("absent")
    with pytest.raises(pytest.fail.Exception):
        missing("no loop device")


def test_present_is_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(KNOWN, "present", Known("", lambda: tmp_path, Path))
    assert need("present") == tmp_path


def test_payloads_are_read_in_canonical_form(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(
        '[{"name": "push", "examples": [{"b": 1, "a": "é"}, {}]}, {"name": "ping", "examples": []}]'
    )
    assert read(tmp_path) == [("push", '{"a":"é","b":1}'.encode()), ("push", b"{}")]
    assert canonical([1, {"x": None}]) == b'[1,{"x":null}]'
