"""`bus pipeline prepare` keeps Spark's classes, and later commands map them and say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.harness.jobs import pipeline
from tests.harness.process import Child, module
from tests.harness.trace_traffic import write_traffic
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]

WITHIN = 300.0
EVENTS = 500
_LEAST = 50 * 1024**2
_TAKEN = re.compile(r"[0-9.]+ ?m?s\b|\d{4}-\d\d-\d\dT[0-9:.]+Z")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pier" / "java"


@pytest.fixture
def roll_up(tmp_path: Path) -> Callable[..., str]:
    """Run the command to its end over a lake of its own, and return what it printed."""
    write_traffic(tmp_path / "events", EVENTS, files=2, per_block=50)
    runs = iter(range(100))

    def roll_up(*more: str, maps: Path | None = None) -> str:
        number = next(runs)
        lake, log = tmp_path / f"lake{number}", tmp_path / f"{number}.log"
        argv = module("pipeline", "rollup", "--events", tmp_path / "events", "--lake", lake, "--once", *more)
        with Child(argv, log=log) as child:
            if maps is not None:
                wait_until(
                    lambda: child.check_running() and _is_mapped(child, maps), within=WITHIN, what="Java maps it"
                )
            assert child.wait(WITHIN) == 0, child.output()
        return _TAKEN.sub("TIME", log.read_text().replace(str(lake), "LAKE"))

    return roll_up


def prepared() -> Path:
    done = pipeline("prepare", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    file = Path(told["file"])
    assert file.stat().st_size == told["bytes"] > _LEAST
    assert list(file.parent.iterdir()) == [file]
    return file


def _is_mapped(child: Child, archive: Path) -> bool:
    return any(str(archive) in _maps(process) for process in psutil.Process(child.pid).children(recursive=True))


def _maps(process: psutil.Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:  # it has ended
        return ""


def test_what_is_kept_is_mapped_and_changes_nothing_that_is_said(cache: Path, roll_up: Callable[..., str]) -> None:
    plain = roll_up()
    archive = prepared()
    assert archive.parent == cache
    assert roll_up(maps=archive) == plain
    assert roll_up("--memory", "1g", maps=archive) == plain, "another heap has the same classes"
    assert roll_up("--memory", "40g") == plain, "Java refuses it where its pointers are longer, and says nothing"
    assert prepared() == archive, "it may be made again"
    content = bytearray(archive.read_bytes())
    archive.chmod(0o600)
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(4096)
    for damaged in (bytes(content), b"", b"rubbish"):
        archive.write_bytes(damaged)
        assert roll_up() == plain


@pytest.mark.parametrize(
    ("hindered_by", "said"), [("folder", "non-empty directory"), ("agent", "does not support native JVMTI agent")]
)
def test_what_hinders_java_is_said_and_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, hindered_by: str, said: str
) -> None:
    if hindered_by == "folder":
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "spark-defaults.conf").touch()
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    else:
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n")
    done = pipeline("prepare", "--json")
    assert (done.returncode, list(cache.iterdir())) == (1, [])
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
