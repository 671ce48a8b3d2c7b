import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pipeline.cli import app

DEPLOY = Path(__file__).parents[3] / "deploy" / "spark"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = DEPLOY / "compose.yaml"


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
    (stream,) = [found for found in objects() if found["kind"] == "Deployment"]
    assert stream["spec"]["replicas"] == 1
    assert stream["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("name", sorted(commands()))
def test_commands_are_known_to_the_entrypoint_and_the_pipeline(name):
    role, *rest = commands()[name]
    assert re.search(rf"^{role}\)$", (DEPLOY / "entrypoint.sh").read_text(), re.MULTILINE)
    if role == "submit":
        place = rest.index("/opt/pier/pipeline/__main__.py")
        job, *options = rest[place + 1 :]
        usage = CliRunner().invoke(app, [job, "--help"], terminal_width=200, color=False).output
        assert all(option in usage for option in options if option.startswith("--"))


def test_settings_are_read_as_spark_reads_them():
    lines = (DEPLOY / "settings.conf").read_text("utf-8").splitlines()
    settings = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert all(key.startswith("spark.") for key in settings)
    assert settings["spark.speculation"] == "false"


def test_the_entrypoint_is_a_shell_script_that_refuses_what_it_does_not_know():
    done = subprocess.run([DEPLOY / "entrypoint.sh", "dance"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 64
    assert "dance" in done.stderr
