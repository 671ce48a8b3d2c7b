"""The Dockerfile of the bus against the project: what it copies, installs and sets."""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.harness.dockerfile import Stage, copy_of, stages
from tests.unit.deploy.product import DEPLOY, PROJECT, ROOT, check_command, settings_of

IMAGE = DEPLOY / "image"
BASE, BUILD, FINAL = stages(IMAGE / "Dockerfile")


def copied(*of: Stage) -> list[str]:
    """Return what stages take from the repository."""
    copies = [copy_of(step) for stage in of for step in stage.steps if step.name == "COPY"]
    return [source for one in copies if not one.stage for source in one.sources]


def test_all_packages_and_what_installs_them_are_copied():
    sources = copied(BUILD)
    assert all((ROOT / source).exists() for source in sources)
    assert set(sources) >= set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert {"pyproject.toml", "constraints.txt", PROJECT["project"].get("readme", "README.md")} <= set(sources)


def test_the_context_has_what_is_copied_and_nothing_else():
    lines = (IMAGE / "Dockerfile.dockerignore").read_text("utf-8").split()
    assert lines[0] == "**"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied(BUILD, FINAL))


def test_every_extra_of_a_server_is_installed():
    (install,) = [step.rest for step in BUILD.steps if "pip install" in step.rest]
    (extras,) = re.findall(r"'\.\[([a-z,]+)\]'", install)
    elsewhere = {"pipeline", "otel", "dev", "docs"}
    assert set(extras.split(",")) == set(PROJECT["project"]["optional-dependencies"]) - elsewhere
    assert "--constraint constraints.txt" in install


def test_it_runs_as_a_user_that_owns_the_data_and_nothing_else():
    (made,) = [step.rest for step in FINAL.steps if "useradd" in step.rest]
    (user,) = re.findall(r"--uid (\d+)", made)
    assert FINAL.last("USER").rest == f"{user}:{user}"
    assert int(user) >= 1000
    data = FINAL.environment["BUS_DATA"]
    assert FINAL.last("VOLUME").rest == FINAL.last("WORKDIR").rest == data
    assert f"install --directory --owner bus --group bus --mode 0700 {data}" in made


def test_its_settings_and_its_command_are_the_products():
    settings = settings_of(FINAL.environment)
    assert FINAL.last("EXPOSE").rest == str(settings.port)
    assert FINAL.last("ENTRYPOINT").words == ["/usr/bin/tini", "--", "bus"]
    check_command(FINAL.last("CMD").words)
    assert copy_of(FINAL.steps[1]).target == "/opt/pier"
    assert FINAL.environment["PATH"].startswith("/opt/pier/bin:")


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def asked(port: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setitem(os.environ, "BUS_PORT", str(port))
    script = Path(FINAL.last("HEALTHCHECK").rest.partition("CMD ")[2].split('"')[3]).name
    main = runpy.run_path(str(IMAGE / script))["main"]
    return int(main())


def test_the_check_of_health_asks_the_port_of_the_settings(served: int, monkeypatch: pytest.MonkeyPatch):
    assert asked(served, monkeypatch) == 0
    assert asked(1, monkeypatch) == 1
