"""The containers of compose.yaml against the product, and against the other files that they name."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bus.domain.routing.rooms import read_rooms
from bus.transports.kafka.config import parse_bootstrap
from bus.transports.nsq import parse_lookupd
from bus.transports.rabbitmq import parse_cluster
from tests.harness.dockerfile import stages
from tests.servers import mongodb_server, nsq, rabbitmq_fixtures
from tests.unit.deploy.product import DEPLOY, PORTS, ROLES, ROOT, check_command, settings_of

FOLDER = DEPLOY / "compose"
TEXT = (FOLDER / "compose.yaml").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BUSES = {name: service for name, service in SERVICES.items() if service["image"] == "pier"}
IMAGE = stages(DEPLOY / "image" / "Dockerfile")[-1]
WITHOUT_A_PORT = "first-key"


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the source and the place of each of a service's volumes."""
    return [tuple(volume.split(":")[:2]) for volume in service.get("volumes", [])]


def test_every_role_has_a_service_and_the_port_that_is_its_own():
    running = {name: service for name, service in BUSES.items() if name != WITHOUT_A_PORT}
    assert {service["command"][1] for service in running.values()} == ROLES == set(running)
    for name, service in running.items():
        assert service["command"] == ["run", name]
        assert settings_of(service["environment"]).port == PORTS[name]
        for port in service.get("ports", []):
            assert port == f"127.0.0.1:{PORTS[name]}:{PORTS[name]}"


@pytest.mark.parametrize("name", sorted(BUSES))
def test_commands_and_settings_are_the_products(name: str):
    check_command(BUSES[name]["command"])
    settings = settings_of(IMAGE.environment | BUSES[name]["environment"])
    assert settings.store.startswith("mongodb://")
    parse_bootstrap(settings.kafka_bootstrap)
    parse_lookupd(settings.nsq_lookupd)
    assert parse_cluster(settings.rabbitmq_primary, "primary") != parse_cluster(settings.rabbitmq_backup, "backup")


@pytest.mark.parametrize("name", sorted(BUSES))
def test_hosts_that_settings_name_are_services(name: str):
    text = " ".join(BUSES[name]["environment"].values())
    hosts = set(re.findall(r"(?:@|//|,|^| )([a-z][a-z0-9-]*):\d+", text)) | set(re.findall(r"mongo\d", text))
    assert hosts == {"mongo1", "mongo2", "mongo3", "kafka", "rabbitmq-primary", "rabbitmq-backup", "nsqlookupd"}
    assert hosts <= set(SERVICES)


@pytest.mark.parametrize("name", sorted(BUSES))
def test_containers_of_the_bus_may_do_and_write_as_little_as_the_image_needs(name: str):
    service = BUSES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert dict(mounts(service))["spools"] == IMAGE.environment["BUS_DATA"]
    assert int(service["stop_grace_period"].removesuffix("s")) > settings_of({}).drain_timeout + 5


def test_each_container_has_a_directory_and_a_url_of_its_own(tmp_path: Path):
    program = tmp_path / "bus"
    program.write_text('#!/bin/sh\necho "$BUS_DATA $BUS_ADVERTISE $@"\n', "utf-8")
    program.chmod(0o755)
    tini, dashes, *shell = [word.replace("$$", "$") for word in BUSES["dispatcher"]["entrypoint"]]
    assert [tini, dashes] == IMAGE.last("ENTRYPOINT").words[:2]
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOSTNAME": "c0ffee", "BUS_PORT": "8702"}
    done = subprocess.run([*shell, "run", "a b"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "/var/lib/bus/c0ffee http://c0ffee:8702 run a b\n"
    assert all(service["entrypoint"] == BUSES["dispatcher"]["entrypoint"] for service in BUSES.values())
    sweeper = settings_of(BUSES["sweeper"]["environment"])
    assert sweeper.sweep == IMAGE.environment["BUS_DATA"], "it looks where the others are"


def test_files_and_volumes_that_are_mounted_are_there():
    for service in SERVICES.values():
        for source, _ in mounts(service):
            assert (FOLDER / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
    used = {source for service in SERVICES.values() for source, _ in mounts(service)}
    assert set(COMPOSE["volumes"]) <= used
    build = SERVICES["receiver"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).exists()


def test_the_lookup_proxy_has_rooms_that_name_the_nsqlookupd():
    place = settings_of(BUSES["lookup"]["environment"]).lookup_config
    assert ("./rooms.json", str(place)) in mounts(BUSES["lookup"])
    rooms = read_rooms((FOLDER / "rooms.json").read_bytes())
    assert list(rooms.clusters.values()) == [(BUSES["lookup"]["environment"]["BUS_NSQ_LOOKUPD"],)]


def test_prometheus_scrapes_every_role_where_it_serves():
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    found = {config["names"][0]: config["port"] for config in job["dns_sd_configs"]}
    assert found == PORTS
    files = dict(mounts(SERVICES["prometheus"]))
    (option,) = [word for word in SERVICES["prometheus"]["command"] if word.startswith("--config.file=")]
    assert option.partition("=")[2] == f"{files['../prometheus']}/prometheus.yml"


def test_grafana_finds_its_dashboards_and_its_figures():
    files = dict(mounts(SERVICES["grafana"]))
    provisioning = DEPLOY / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "pier.yaml").read_text("utf-8"))["providers"]
    assert provider["options"]["path"] == files["../grafana/dashboards"]
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"


def test_the_replica_set_is_the_one_of_the_store():
    name = re.findall(r"replicaSet=(\w+)", BUSES["receiver"]["environment"]["BUS_STORE"])[0]
    for member in ("mongo1", "mongo2", "mongo3"):
        assert SERVICES[member]["command"][:2] == ["--replSet", name]
    script = SERVICES["mongo1"]["healthcheck"]["test"][-1]
    assert f'_id: "{name}"' in script
    assert "`mongo$${n}:27017`" in script


def test_servers_are_of_the_versions_that_tests_run_against():
    assert SERVICES["mongo1"]["image"] == mongodb_server.IMAGE
    assert SERVICES["rabbitmq-primary"]["image"] == SERVICES["rabbitmq-backup"]["image"] == rabbitmq_fixtures.IMAGE
    assert SERVICES["nsqd"]["image"] == SERVICES["nsqlookupd"]["image"] == nsq.IMAGE


def test_secrets_are_asked_for_and_the_page_says_how_they_are_made():
    page = (ROOT / "docs" / "deployment.md").read_text("utf-8")
    needed = set(re.findall(r"\$\{(PIER_\w+):\?\}", TEXT))
    assert needed == {"PIER_SECRET_KEY", "PIER_RABBITMQ_PASSWORD", "PIER_GRAFANA_PASSWORD"}
    assert all(f"{name}=" in page for name in needed)
    assert all(name in page for name in set(re.findall(r"\$\{(PIER_\w+):-", TEXT)))
