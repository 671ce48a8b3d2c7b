"""The release: a source archive, a wheel out of it, and a bus that runs from nothing but that wheel."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.harness.admin import Admin
from tests.harness.process import ROOT, Child
from tests.harness.subscribers import SubscriberProcess

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
TOOLS = ("build", "hatchling")
CLEAN = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}


def run(*argv: object, env: dict[str, str] | None = None, within: float = 120) -> str:
    done = subprocess.run(
        [str(each) for each in argv],
        cwd="/",
        env={**{k: v for k, v in os.environ.items() if not k.startswith("BUS_")}, **CLEAN, **(env or {})},
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """Return the source archive and the wheel that was built from it."""
    env = {}
    if not all(importlib.util.find_spec(tool) for tool in TOOLS):  # an environment of before these were needed
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder / "tools", *TOOLS)
        env = {"PYTHONPATH": str(folder / "tools")}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", ROOT, env=env)
    (source,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return source, wheel


def tracked(*below: str) -> set[str]:
    return set(run("git", "-C", ROOT, "ls-files", *below).splitlines())


def installed(folder: Path, wheel: Path) -> Path:
    """Return the programs of an environment that has the wheel, and of this one what it depends on."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def deliver(program: Path, folder: Path) -> None:
    """Run a bus from an installation, and have it deliver a message."""
    argv = [str(program), "up", "--data", str(folder / "data"), "--port", "0", "--json"]
    with SubscriberProcess(folder) as subscriber, Child(argv, log=folder / "bus.log", env=CLEAN) as bus:
        admin = Admin(bus.ready_line(60)["url"])
        admin.destination("orders")
        admin.subscription("orders", "shop", subscriber.url("/shop"))
        sent = admin.send("orders", b'{"n":1}').json()["id"]
        assert set(admin.wait_drained("orders", [sent], within=30)) == {"delivered"}
        items = admin.call("GET", "/api/v1/processes").json()["items"]
        assert [item["version"] for item in items] == [VERSION]
        assert admin.call("GET", "/admin", follow_redirects=True).status_code == 200
        admin.close()
        assert bus.stop() == 0


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_a_bus_runs_from_the_wheel_alone(tmp_path: Path) -> None:
    source, wheel = built(tmp_path)
    assert (source.name, wheel.name) == (f"pier_bus-{VERSION}.tar.gz", f"pier_bus-{VERSION}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as files:
        assert {name for name in files.namelist() if ".dist-info/" not in name} == tracked(*PACKAGES)
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        assert tracked(*PACKAGES, "tests", "docs", "README.md", "CHANGELOG.md", "pyproject.toml") <= names
    programs = installed(tmp_path / "clean", wheel)
    assert str(tmp_path / "clean") in run(programs / "python", "-c", "import bus; print(bus.__file__)")
    assert run(programs / "bus", "--version") == f"pier-bus {VERSION}\n"
    assert "backup" in run(programs / "bus", "--help")
    deliver(programs / "bus", tmp_path)


def test_the_wheel_takes_every_package_and_role() -> None:
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found - {"bench", "deploy", "docs", "tests"} == set(PACKAGES)
    assert (ROOT / "bus" / "py.typed").exists()
    roles = PROJECT["project"]["entry-points"]["bus.roles"].values()
    assert all(importlib.util.find_spec(role.partition(":")[0]) for role in roles)
