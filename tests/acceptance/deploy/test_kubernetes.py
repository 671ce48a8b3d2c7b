"""The manifests of Kubernetes, as kustomize makes them: by the schemas of Kubernetes, and against the product."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from bus.domain.routing.rooms import read_rooms
from tests.harness.dockerfile import stages
from tests.harness.process import ROOT
from tests.servers import kustomize, missing, need
from tests.unit.deploy.product import PORTS, PROBES, ROLES, check_command, settings_of

FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZED = ("base", "any-user")
PLAIN = (FOLDER / "first-key.yaml", *(FOLDER / "example" / name for name in ("application.yaml", "agent.yaml")))
# The oldest that is looked after anywhere, and the newest whose schema is known.
VERSIONS = ("1.30", "1.37")
IMAGE = stages(ROOT / "deploy" / "image" / "Dockerfile")[-1]
NODE = "/var/lib/pier"
OF_NODE = f"{NODE}/producers"
SMALL_NODE = (940, 2800)
"""Thousandths of a processor, and MiB, that a cluster leaves of a node with two processors that it shares and 4 GiB."""
PAGE = (ROOT / "docs" / "deployment.md").read_text("utf-8")
Object = dict[str, Any]


@functools.cache
def built(name: str) -> list[Object]:
    """Return all objects of a folder."""
    return list(yaml.safe_load_all(kustomize.build(need("kustomize"), FOLDER / name)))


def plain() -> list[Object]:
    """Return the objects of the files that are applied as they are."""
    return [found for path in PLAIN for found in yaml.safe_load_all(path.read_text("utf-8"))]


def of_kind(objects: list[Object], *kinds: str) -> dict[str, Object]:
    """Return objects by name."""
    return {found["metadata"]["name"]: found for found in objects if found["kind"] in kinds}


def workloads(name: str = "base") -> dict[str, Object]:
    return of_kind(built(name), "Deployment", "DaemonSet")


def pod_of(workload: Object) -> Object:
    found: Object = workload["spec"]["template"]["spec"]
    return found


def bus_of(workload: Object) -> Object:
    """Return the container of the bus."""
    (found,) = [one for one in pod_of(workload)["containers"] if one["name"] == "bus"]
    return dict(found)


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's own variables, those that come from elsewhere as a text that stands for them."""
    return {each["name"]: each.get("value", "10.0.0.1") for each in container.get("env", [])}


def containers(objects: list[Object]) -> Iterator[tuple[str, Object, Object]]:
    """Yield the name of each pod, the pod, and each of its containers."""
    for found in objects:
        if "template" in found.get("spec", {}):
            pod = pod_of(found)
            for container in (*pod.get("initContainers", []), *pod["containers"]):
                yield found["metadata"]["name"], pod, container


def labels_of(workload: Object) -> dict[str, str]:
    found: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return found


def complaints(found: Object, version: str) -> str:
    """Return what the schema of a version of Kubernetes says against an object."""
    try:
        import kubernetes_validate  # noqa: PLC0415 - a package of the tests, not on every laptop
    except ImportError:
        missing("kubernetes-validate is not installed: pip install kubernetes-validate")
    try:
        kubernetes_validate.validate(found, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{found['kind']} {found['metadata']['name']}: {error.message}"
    return ""


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(version: str) -> None:
    objects = [*built("base"), *built("any-user"), *plain()]
    assert len(objects) > 40
    assert [text for found in objects if (text := complaints(found, version))] == []


def test_a_wrong_field_is_seen() -> None:
    wrong = copy.deepcopy(workloads()["receiver"])
    pod_of(wrong)["terminationGraceSeconds"] = 1
    assert "terminationGraceSeconds" in complaints(wrong, VERSIONS[-1])


@pytest.mark.parametrize("name", KUSTOMIZED)
def test_every_role_runs_and_its_command_and_settings_are_the_products(name: str) -> None:
    found = workloads(name)
    assert set(found) == ROLES
    for role, workload in found.items():
        container = bus_of(workload)
        check_command(container["args"])
        assert container["args"] == ["run", role]
        settings = settings_of(IMAGE.environment | of_kind_data("pier", name) | environment(container))
        assert settings.port_for([role]) == PORTS[role]
        assert settings.advertise == f"http://10.0.0.1:{PORTS[role]}"
        assert [port["containerPort"] for port in container["ports"]] == [PORTS[role]]


def of_kind_data(name: str, folder: str = "base") -> dict[str, str]:
    """Return what a generated config map has."""
    (found,) = [one for key, one in of_kind(built(folder), "ConfigMap").items() if key.startswith(f"{name}-")]
    return dict(found["data"])


def test_variables_are_known_before_they_are_used() -> None:
    for _, _, container in containers(built("base")):
        known: set[str] = set()
        for each in container.get("env", []):
            assert set(re.findall(r"\$\((\w+)\)", each.get("value", ""))) <= known
            known.add(each["name"])


def test_probes_ask_what_the_bus_answers_where_it_serves() -> None:
    for workload in workloads().values():
        container = bus_of(workload)
        names = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["path"] in PROBES
            assert asked["port"] in names
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz", "degraded is no reason for a restart"


def test_a_stop_has_the_time_for_the_pause_before_it_and_the_drain() -> None:
    for workload in workloads().values():
        (program, seconds) = bus_of(workload)["lifecycle"]["preStop"]["exec"]["command"]
        assert program == "sleep"
        needed = int(seconds) + settings_of({}).drain_timeout + 5
        assert pod_of(workload)["terminationGracePeriodSeconds"] > needed


def test_pods_may_do_as_little_as_the_image_needs() -> None:
    user = int(IMAGE.last("USER").rest.partition(":")[0])
    for name, pod, container in containers([*built("base"), *plain()]):
        if container["image"].partition(":")[0] != "pier":
            continue
        context = pod["securityContext"] | container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, name
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
        assert pod["automountServiceAccountToken"] is False
        is_prepared = container["name"] == "prepare"
        assert context["runAsUser"] == (0 if is_prepared else user)
        assert context["runAsNonRoot"] is not is_prepared
        assert context["capabilities"].get("add", []) == (["CHOWN", "FOWNER"] if is_prepared else [])


def test_each_mount_has_its_volume_and_no_pod_of_the_bus_waits_for_a_directory_of_its_node() -> None:
    for name, pod, container in containers([*built("base"), *plain()]):
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        made = [word for one in pod.get("initContainers", []) for word in one["command"] if word.startswith("/")]
        for mount in container["volumeMounts"]:
            host = volumes[mount["name"]].get("hostPath")
            if host is None:
                continue
            assert mount["mountPath"] == host["path"]
            if name in workloads():
                assert host == {"path": NODE if name == "sweeper" else made[0], "type": "DirectoryOrCreate"}
            else:
                assert host == {"path": OF_NODE, "type": "Directory"}, "the sweeper of the node makes it"
        if name in workloads():
            assert made == [f"{NODE}/services", OF_NODE][: 1 + (name == "sweeper")]


def test_a_node_that_is_full_of_the_bus_has_room_for_its_sweeper() -> None:
    (priority,) = of_kind(built("base"), "PriorityClass").values()
    assert "namespace" not in priority["metadata"]
    assert 0 < priority["value"] <= 1_000_000_000, "more is for the cluster's own"
    assert "preemptionPolicy" not in priority
    for name, workload in workloads().items():
        expected = priority["metadata"]["name"] if name == "sweeper" else None
        assert pod_of(workload).get("priorityClassName") == expected


def test_all_of_it_fits_on_one_small_node() -> None:
    milli, mebi = 0, 0
    for workload in workloads().values():
        wanted = bus_of(workload)["resources"]["requests"]
        count = workload["spec"].get("replicas", 2 if workload["kind"] == "Deployment" else 1)
        milli += count * int(wanted["cpu"].removesuffix("m"))
        mebi += count * int(wanted["memory"].removesuffix("Mi"))
    assert milli <= SMALL_NODE[0]
    assert mebi <= SMALL_NODE[1]


def test_an_image_that_is_on_the_node_is_not_pulled() -> None:
    assert {one["imagePullPolicy"] for _, _, one in containers([*built("base"), *plain()])} == {"IfNotPresent"}


def test_services_keep_their_queues_where_the_sweeper_looks_and_in_a_directory_of_their_own() -> None:
    swept = environment(bus_of(workloads()["sweeper"]))["BUS_SWEEP"].split(",")
    assert swept == [f"{NODE}/services", OF_NODE]
    for role, workload in workloads().items():
        assert environment(bus_of(workload))["BUS_DATA"] == f"{swept[0]}/$(POD_NAME)", role
        mounts = {mount["mountPath"] for mount in bus_of(workload)["volumeMounts"]}
        assert mounts & {swept[0], NODE}


def test_an_agent_runs_on_each_node_and_keeps_messages_where_the_sweeper_looks() -> None:
    (workload,) = of_kind(plain(), "DaemonSet").values()
    (agent,) = pod_of(workload)["containers"]
    check_command(agent["args"])
    given = dict(word.removeprefix("--").split("=") for word in agent["args"][1:])
    assert given["spool"] == OF_NODE
    assert given["socket"].rpartition("/")[0] == OF_NODE
    assert given["server"] == environment(bus_of_application())["PIER_URL"]
    assert [(port["containerPort"], port["hostPort"]) for port in agent["ports"]] == [(8710, 8710)]
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert agent[probe]["httpGet"] == {"path": path, "port": "http"}


def bus_of_application() -> Object:
    """Return the container of the example of an application."""
    (application,) = of_kind(plain(), "Deployment").values()
    (container,) = pod_of(application)["containers"]
    return dict(container)


def test_an_application_mounts_its_spool_where_the_sweeper_looks_as_a_user_whom_it_can_read() -> None:
    (application,) = of_kind(plain(), "Deployment").values()
    (container,) = pod_of(application)["containers"]
    given = environment(container)
    assert given["PIER_SPOOL"] == OF_NODE
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [OF_NODE]
    sweeper = pod_of(workloads()["sweeper"])["securityContext"]
    assert pod_of(application)["securityContext"]["runAsUser"] == sweeper["runAsUser"]
    receiver = of_kind(built("base"), "Service")["receiver"]
    (port,) = receiver["spec"]["ports"]
    assert given["PIER_URL"] == f"http://receiver.pier.svc:{port['port']}"


def test_a_sweeper_for_any_user_may_read_all_and_does_nothing_else() -> None:
    context = bus_of(workloads("any-user")["sweeper"])["securityContext"]
    assert context["runAsUser"] == 0
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]}
    assert context["readOnlyRootFilesystem"] is True
    assert "--mode=1777" in pod_of(workloads("any-user")["sweeper"])["initContainers"][0]["command"][-1]


def selecting(selector: Mapping[str, str]) -> set[str]:
    """Return the workloads whose pods a selector meets."""
    return {name for name, one in workloads().items() if selector.items() <= labels_of(one).items()}


def test_services_and_budgets_meet_the_pods_of_one_role() -> None:
    for kind in ("Service", "PodDisruptionBudget"):
        for name, found in of_kind(built("base"), kind).items():
            selector = found["spec"]["selector"]
            assert selecting(selector.get("matchLabels", selector)) == {name}
    served = of_kind(built("base"), "Service")
    assert {name: one["spec"]["ports"][0]["port"] for name, one in served.items()} == {
        role: PORTS[role] for role in ("receiver", "admin", "lookup")
    }


def test_roles_of_several_pods_have_a_budget_which_lets_one_go() -> None:
    budgets = of_kind(built("base"), "PodDisruptionBudget")
    several = {name for name, one in of_kind(built("base"), "Deployment").items() if one["spec"].get("replicas") != 1}
    assert set(budgets) == several
    assert all(one["spec"]["maxUnavailable"] == 1 for one in budgets.values())


def test_dispatchers_are_as_many_as_the_backlog_wants_by_a_metric_that_the_adapter_makes() -> None:
    (scaler,) = of_kind(built("base"), "HorizontalPodAutoscaler").values()
    target = scaler["spec"]["scaleTargetRef"]
    assert target["name"] in of_kind(built("base"), target["kind"])
    assert "replicas" not in workloads()[target["name"]]["spec"], "each apply would undo what the autoscaler did"
    (metric,) = scaler["spec"]["metrics"]
    (rule,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "adapter.yml").read_text("utf-8"))["externalRules"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]


def test_who_may_call_is_let_in_by_a_label_and_nobody_else() -> None:
    policies = of_kind(built("base"), "NetworkPolicy")
    everything = set(workloads())
    met = {name: selecting(one["spec"]["podSelector"]["matchLabels"]) for name, one in policies.items()}
    assert met == {
        "nobody": everything,
        "among-the-bus": everything,
        "figures": everything,
        "producers": {"receiver"},
        "people": {"admin"},
        "nsq-clients": {"lookup"},
    }
    assert "ingress" not in policies["nobody"]["spec"]
    for name, policy in policies.items():
        for rule in policy["spec"].get("ingress", []):
            assert rule["ports"] == [{"port": "http"}]
            (peer,) = rule["from"]
            (kind, selector), *rest = peer.items()
            assert not rest
            if kind == "podSelector":
                assert selecting(selector["matchLabels"]) == everything
            else:
                assert all(f"{label}=true" in PAGE for label in selector["matchLabels"]), name
    (namespace,) = of_kind(plain(), "Namespace").values()
    assert namespace["metadata"]["labels"]["pier-producers"] == "true"


def test_secrets_and_configuration_that_pods_name_are_made_or_the_page_says_how() -> None:
    maps = of_kind(built("base"), "ConfigMap")
    for _, pod, container in containers([*built("base"), *plain()]):
        for source in container.get("envFrom", []):
            if "configMapRef" in source:
                assert source["configMapRef"]["name"] in maps
            else:
                assert f"generic {source['secretRef']['name']}" in PAGE
        for each in container.get("env", []):
            reference = each.get("valueFrom", {}).get("secretKeyRef")
            if reference is not None and reference["name"] != "pier-key":  # the application's own
                assert f"generic {reference['name']}" in PAGE
                assert f"--from-literal={reference['key']}=" in PAGE
        for volume in pod["volumes"]:
            assert "configMap" not in volume or volume["configMap"]["name"] in maps


def test_settings_in_secrets_are_settings() -> None:
    given = dict(re.findall(r"--from-literal=(BUS_\w+)=[\"']?([^\"'\s]+)", PAGE))
    assert {"BUS_STORE", "BUS_SECRET_KEY", "BUS_API_KEY"} <= set(given)
    settings_of(given)


def test_the_lookup_proxy_has_its_rooms() -> None:
    container = bus_of(workloads()["lookup"])
    place = environment(container)["BUS_LOOKUP_CONFIG"]
    (folder,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "rooms"]
    files = of_kind_data("rooms")
    assert place.removeprefix(f"{folder}/") in files
    assert read_rooms(files[place.removeprefix(f"{folder}/")].encode()).clusters


def test_the_first_key_is_made_by_a_command_of_the_product() -> None:
    (job,) = of_kind(plain(), "Job").values()
    (container,) = pod_of(job)["containers"]
    check_command(container["args"])
    assert job["spec"]["backoffLimit"] == 0, "each try would make another key"


def test_prometheus_finds_pods_by_the_labels_and_the_port_that_they_have() -> None:
    (job,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "kubernetes.yml").read_text("utf-8"))["scrape_configs"]
    (discovery,) = job["kubernetes_sd_configs"]
    assert discovery["namespaces"]["names"] == list(of_kind(built("base"), "Namespace"))
    kept = {rule["source_labels"][0]: rule["regex"] for rule in job["relabel_configs"] if rule.get("action") == "keep"}
    role = next(rule["source_labels"][0] for rule in job["relabel_configs"] if rule.get("target_label") == "role")
    for name, workload in workloads().items():
        as_labels = {
            f"__meta_kubernetes_pod_label_{re.sub('[^a-zA-Z0-9]', '_', key)}": value
            for key, value in labels_of(workload).items()
        }
        as_labels["__meta_kubernetes_pod_container_port_name"] = bus_of(workload)["ports"][0]["name"]
        assert kept.items() <= as_labels.items()
        assert as_labels[role] == name
