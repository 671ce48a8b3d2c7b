import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from bus.settings import PipelineSettings, load_settings
from pipeline.cli import app
from pipeline.commands.telling import ReportTarget
from pipeline.options import SessionOptions
from pipeline.serving.plan import Kafka, plan_of

DEPLOY = Path(__file__).parents[3] / "deploy" / "spark"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = DEPLOY / "compose.yaml"
WORKLOADS = ("CronJob", "Deployment")


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def objects() -> list[dict[str, Any]]:
    return [found for path in MANIFESTS for found in documents(path)]


def pods() -> dict[str, dict[str, Any]]:
    found = {}
    for each in objects():
        spec = each.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found[each["metadata"]["name"]] = spec["template"]["spec"]
    return found


def commands() -> dict[str, list[str]]:
    of_pods = {name: pod["containers"][0]["args"] for name, pod in pods().items()}
    (compose,) = documents(COMPOSE)
    return of_pods | {f"compose {name}": service["command"] for name, service in compose["services"].items()}


def test_objects_have_names_and_one_namespace():
    for found in objects():
        assert found["apiVersion"]
        assert found["metadata"]["name"]
        assert found["kind"] == "Namespace" or found["metadata"]["namespace"] == "pier"


def test_pods_name_what_is_there():
    names = {(found["kind"], found["metadata"]["name"]) for found in objects()}
    for pod in pods().values():
        assert ("ServiceAccount", pod["serviceAccountName"]) in names
        for volume in pod["volumes"]:
            assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_a_stream_never_has_two_drivers():
    streams = {found["metadata"]["name"]: found["spec"] for found in objects() if found["kind"] == "Deployment"}
    assert set(streams) == {"rollup", "pipeline"}
    for stream in streams.values():
        assert stream["replicas"] == 1
        assert stream["strategy"] == {"type": "Recreate"}


def jobs() -> dict[str, list[str]]:
    return {name: rest for name, (role, *rest) in commands().items() if role == "job"}


def submit_args() -> dict[str, list[str]]:
    """Return what PySpark gives the Java that it starts, by job."""
    (compose,) = documents(COMPOSE)
    given = {f"compose {name}": service.get("environment", {}) for name, service in compose["services"].items()}
    for name, pod in pods().items():
        given[name] = {each["name"]: each.get("value", "") for each in pod["containers"][0].get("env", [])}
    return {
        name: shlex.split(env["PYSPARK_SUBMIT_ARGS"]) for name, env in given.items() if "PYSPARK_SUBMIT_ARGS" in env
    }


@pytest.mark.parametrize("name", sorted(commands()))
def test_commands_are_known_to_the_entrypoint(name):
    role = commands()[name][0]
    assert re.search(rf"^{role}\)$", (DEPLOY / "entrypoint.sh").read_text(), re.MULTILINE)


def test_pods_run_a_job_that_is_told_of_their_end():
    assert set(pods()) == {"rollup", "baseline", "compact", "judge", "pipeline"} <= set(jobs())
    assert "compose rollup" in jobs()


@pytest.mark.parametrize("name", sorted(jobs()))
def test_jobs_are_commands_of_the_pipeline(name):
    job, *options = jobs()[name]
    usage = CliRunner().invoke(app, [job, "--help"], terminal_width=200, color=False).output
    assert all(option in usage for option in options if option.startswith("--"))
    assert ("--master" in options) == (job != "compact")


@pytest.mark.parametrize("name", sorted(jobs()))
def test_a_job_on_a_cluster_has_its_settings_and_one_of_a_pod_has_none(name):
    options = jobs()[name]
    master = options[options.index("--master") + 1] if "--master" in options else "local"
    if master.startswith("local"):
        assert name not in submit_args()
        return
    *given, last = submit_args()[name]
    assert last == "pyspark-shell"
    assert given[:2] == ["--properties-file", "/opt/pier/settings.conf"]
    assert "/opt/pier/settings.conf" in (DEPLOY / "Dockerfile").read_text("utf-8")
    assert given[2::2] == ["--conf"] * (len(given) // 2 - 1)
    assert all(re.fullmatch(r"spark\.[\w.]+=\S+", value) for value in given[3::2])


def test_executors_find_the_driver_where_its_service_is():
    settings = dict(value.split("=", 1) for value in submit_args()["rollup"][3::2])
    (service,) = [found for found in objects() if found["kind"] == "Service"]
    assert settings["spark.driver.host"] == "{name}.{namespace}.svc".format(**service["metadata"])
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {settings["spark.driver.port"], settings["spark.blockManager.port"]}
    names = [each["name"] for each in pods()["rollup"]["containers"][0]["env"]]
    assert names.index("POD_NAME") < names.index("PYSPARK_SUBMIT_ARGS"), "a variable is only known behind its own line"


def template_of(name: str) -> dict[str, Any]:
    (found,) = [each for each in objects() if each["metadata"]["name"] == name and each["kind"] in WORKLOADS]
    template: dict[str, Any] = found["spec"].get("jobTemplate", {}).get("spec", found["spec"])["template"]
    return template


@pytest.mark.parametrize("name", ["judge", "pipeline"])
def test_what_tells_the_bus_has_a_key_and_is_let_in_by_the_admin(name):
    template = template_of(name)
    (container,) = template["spec"]["containers"]
    assert "--tell" in container["args"] or container["args"][1] == "serve"
    (key,) = [each for each in container["env"] if each["name"] == "BUS_API_KEY"]
    assert set(key["valueFrom"]["secretKeyRef"]) == {"name", "key"}
    of_bus = [
        each for path in sorted((DEPLOY.parent / "kubernetes" / "base").glob("*.yaml")) for each in documents(path)
    ]
    (service,) = [each for each in of_bus if each["kind"] == "Service" and each["metadata"]["name"] == "admin"]
    url = container["args"][container["args"].index("--server") + 1]
    assert url == f"http://admin.pier.svc:{service['spec']['ports'][0]['port']}"
    (policy,) = [
        each for each in of_bus if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "among-the-bus"
    ]
    let_in = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert template["metadata"]["labels"].items() >= let_in.items()


def test_what_stays_has_the_settings_of_a_bus(monkeypatch, tmp_path):
    container = template_of("pipeline")["spec"]["containers"][0]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each.get("value", f"mongodb://store/{each['name']}"))
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, {})
    lake = settings.pipeline.lake
    assert lake == container["volumeMounts"][0]["mountPath"]
    session = SessionOptions(connectors=tmp_path)
    plan = plan_of(
        settings.model_copy(update={"pipeline": PipelineSettings()}), ReportTarget("http://admin", ""), session
    )
    assert plan.events == Kafka("kafka.pier.svc:9092", "bus-events")


def test_what_is_out_is_no_job_to_try_again():
    specs = {found["metadata"]["name"]: found["spec"] for found in objects() if found["kind"] == "CronJob"}
    assert specs["judge"]["jobTemplate"]["spec"]["backoffLimit"] == 0


def test_who_runs_may_write_the_lake_and_read_the_events():
    image = (DEPLOY / "Dockerfile").read_text("utf-8")
    (user,) = re.findall(r"^ARG PIER_USER=(\d+)$", image, re.MULTILINE)
    assert re.search(r"^USER \$PIER_USER$", image, re.MULTILINE)
    assert re.search(rf"groupadd --gid {user} spark", image)
    assert re.search(rf"useradd --non-unique --uid \$PIER_USER --gid {user}\b.* spark", image)
    assert "install --directory --owner spark --group spark /lake" in image
    for pod in pods().values():
        wanted = {"runAsUser": int(user), "runAsGroup": int(user), "fsGroup": int(user)}
        assert pod["securityContext"].items() >= wanted.items()
    (compose,) = documents(COMPOSE)
    for service in compose["services"].values():
        assert any(volume.endswith(":/events:ro") for volume in service["volumes"])
    assert compose["services"]["master"]["build"]["args"] == {"PIER_USER": f"${{PIER_USER:-{user}}}"}


def test_settings_are_read_as_spark_reads_them():
    lines = (DEPLOY / "settings.conf").read_text("utf-8").splitlines()
    settings = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert all(key.startswith("spark.") for key in settings)
    assert settings["spark.speculation"] == "false"
    assert not any(key.startswith("spark.streaming.") for key in settings), "of streams of another kind"


def test_the_entrypoint_is_a_shell_script_that_refuses_what_it_does_not_know():
    done = subprocess.run([DEPLOY / "entrypoint.sh", "dance"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 64
    assert "dance" in done.stderr


def test_a_job_is_the_process_that_is_signalled(tmp_path):
    program = tmp_path / "python3"
    program.write_text(
        '#!/bin/sh\ntrap "echo ended; exit 0" TERM\necho $$ "$@"\nwhile :; do sleep 0.1; done\n', "utf-8"
    )
    program.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    job = [DEPLOY / "entrypoint.sh", "job", "rollup", "--lake", "/a lake"]
    with subprocess.Popen(job, stdout=subprocess.PIPE, text=True, env=env) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == f"{started.pid} -m pipeline rollup --lake /a lake\n"
        started.send_signal(signal.SIGTERM)
        assert started.communicate(timeout=20)[0] == "ended\n"
    assert started.returncode == 0
    image = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert 'ENTRYPOINT ["/usr/bin/tini", "--", "/opt/entrypoint.sh"]' in image
