"""The units of systemd against the product, and against each other."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bus.agent.service import DRAIN_TIMEOUT
from bus.domain.pipelines import Job
from pipeline.serving.schedule import Schedule
from pipeline.serving.service import LAST_S
from tests.unit.deploy.product import DEPLOY, PORTS, ROLES, check_command, settings_of

FOLDER = DEPLOY / "systemd"
UNITS = [FOLDER / "pier.service", FOLDER / "pier@.service"]
AGENT = FOLDER / "pier-agent.service"
PIPELINE = FOLDER / "pier-pipeline.service"
# Where the roles have the port that the product gives them.
BY_DEFAULT = {"receiver", "admin"}


def lines(path: Path, key: str) -> list[str]:
    """Return the values of a key of a unit."""
    pairs = (line.partition("=") for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    return [value for name, _, value in pairs if name == key]


def variables(path: Path) -> dict[str, str]:
    """Return the variables of an environment file, those that are commented out included."""
    texts = [line.removeprefix("#") for line in path.read_text("utf-8").splitlines() if not line.startswith("# ")]
    return dict(text.split("=", 1) for text in texts)


def environment(unit: Path, role: str) -> dict[str, str]:
    """Return what a unit's process has for its environment."""
    words = [word.replace("%i", role) for value in lines(unit, "Environment") for word in shlex.split(value)]
    found = dict(word.split("=", 1) for word in words)
    for value in lines(unit, "EnvironmentFile"):
        file = FOLDER / value.removeprefix("-").replace("%i", role).removeprefix("/etc/pier/")
        assert file.exists() or value.startswith("-")
        found |= variables(file) if file.exists() else {}
    return found


@pytest.mark.parametrize("role", sorted(ROLES))
def test_each_role_runs_by_its_name_and_where_it_is_looked_for(role: str):
    unit = FOLDER / "pier@.service"
    program, *words = lines(unit, "ExecStart")[0].replace("%i", role).split()
    assert program == "/opt/pier/bin/bus"
    check_command(words)
    settings = settings_of(environment(unit, role))
    assert settings.port_for([role]) == PORTS[role]
    assert ("BUS_PORT" in environment(unit, role)) == (role not in BY_DEFAULT)


def test_the_whole_bus_is_a_service_that_is_not_beside_its_roles():
    unit = FOLDER / "pier.service"
    check_command(lines(unit, "ExecStart")[0].split()[1:])
    assert settings_of(environment(unit, "")).processes == "auto"
    assert set(lines(unit, "Conflicts")[0].split()) == {
        f"pier@{role}.service" for role in ("receiver", "dispatcher", "compensator", "admin", "alarms")
    }


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_data_lies_where_the_unit_may_write(unit: Path):
    made = lines(unit, "StateDirectory")[0].replace("%i", "sweeper").split()
    data = environment(unit, "sweeper")["BUS_DATA"]
    assert data in {f"/var/lib/{directory}" for directory in made}
    store = environment(unit, "sweeper")["BUS_STORE"]
    assert store.startswith(("sqlite:////var/lib/pier/", "mongodb://"))
    assert "pier" in made, "the store and the queues of all are below it"


def test_the_sweeper_looks_at_the_data_of_the_others():
    settings = settings_of(environment(FOLDER / "pier@.service", "sweeper"))
    assert settings.sweep.split(",")[0] == "/var/lib/pier"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_stop_has_the_time_that_a_drain_takes(unit: Path):
    assert int(lines(unit, "TimeoutStopSec")[0]) > settings_of({}).drain_timeout + 5
    assert lines(unit, "KillMode") == ["mixed"], "SIGTERM goes to the supervisor alone, which drains the others"


def test_all_units_are_held_in_the_same_way():
    ours = ("ProtectSystem", "SystemCallFilter", "CapabilityBoundingSet", "User", "UMask")
    first, *others = ([lines(unit, key) for key in ours] for unit in (*UNITS, AGENT))
    assert others == [first, first]


def test_the_agent_keeps_messages_where_it_may_write_and_a_sweeper_looks():
    words = lines(AGENT, "ExecStart")[0].split()[1:]
    check_command(words)
    given = dict(word.removeprefix("--").split("=") for word in words[1:])
    assert given["spool"].removeprefix("/var/lib/") in lines(AGENT, "StateDirectory")[0].split()
    assert given["spool"] in settings_of(environment(FOLDER / "pier@.service", "sweeper")).sweep.split(",")
    assert Path(given["socket"]).parent == Path("/run") / lines(AGENT, "RuntimeDirectory")[0]
    assert environment(AGENT, "").keys() == {"BUS_URL", "BUS_API_KEY"}
    assert int(lines(AGENT, "TimeoutStopSec")[0]) > 2 * DRAIN_TIMEOUT + 5


def test_the_pipeline_is_beside_the_bus_of_its_machine():
    check_command(lines(PIPELINE, "ExecStart")[0].split()[1:])
    found = environment(PIPELINE, "")
    settings = settings_of({name: value for name, value in found.items() if name != "BUS_URL"})
    assert settings.data == settings_of(environment(FOLDER / "pier.service", "")).data
    assert settings.pipeline.archive
    Schedule({job: getattr(settings.pipeline, job) for job in Job}, settings.pipeline.timezone)
    assert int(lines(PIPELINE, "TimeoutStopSec")[0]) > LAST_S
    assert lines(PIPELINE, "KillMode") == ["mixed"], "Java is ended by the process that started it"
