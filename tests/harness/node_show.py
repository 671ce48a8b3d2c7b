"""A node whose processes are all killed: ``python -m tests.harness.node_show IMAGE WORK FOLDER``.

In a network of its own, two nodes run what ``deploy/kubernetes/FOLDER`` says. On the first are applications with
spools, a receiver, and a sweeper; the applications and the receiver are killed while messages are on their way. The
second has the rest of the bus. It prints what was sent, what arrived, and which queues the kill left on the first
node's disk.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.harness.admin import Admin
from tests.harness.http import PLAIN
from tests.harness.image import Image
from tests.harness.pods import NOBODY_THERE, Pod, cluster, reached_by_pods
from tests.harness.process import ROOT
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import kustomize, need
from tests.servers.mongodb_server import MongodbServer

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
NODE: Final = "var/lib/pier"
# An application: what its send() returned is printed, so that a kill leaves no doubt about it.
APPLICATION: Final = """
import os, time
from bus import Bus
with Bus(os.environ["PIER_URL"], api_key=os.environ["PIER_KEY"], spool=os.environ["PIER_SPOOL"], source=SOURCE) as bus:
    for number in range(100_000):
        print(bus.send("orders", {"number": number, "pad": "x" * 500}), flush=True)
        time.sleep(0.005)
"""
ENOUGH: Final = 150
NOTHING: Final[dict[str, list[str]]] = {"producers": [], "services": []}
USERS: Final = {"base": (10001, 10001, 10001), "any-user": (20001, 20002, 20001)}


class Show:
    """The nodes, with all that runs on them."""

    def __init__(self, image: Image, work: Path, folder: str, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._cluster = cluster(image, work)
        built = list(yaml.safe_load_all(kustomize.build(need("kustomize"), KUBERNETES / folder)))
        self._workloads = {one["metadata"]["name"]: one for one in built if "template" in one.get("spec", {})}
        for each in built:
            if each["kind"] == "ConfigMap":
                self._cluster.maps[each["metadata"]["name"]] = each["data"]
        # This cluster has no Kafka.
        settings = next(data for name, data in self._cluster.maps.items() if name.startswith("pier-"))
        settings.update(BUS_EVENTS="none", BUS_KAFKA_BOOTSTRAP="", BUS_EGRESS_ALLOW="10.77.0.0/24")
        self._running: dict[str, Pod] = {}
        self.first, self.second = work / "node-1", work / "node-2"
        for node in (self.first, self.second):
            node.mkdir()

    def serve(self, work: Path) -> SubscriberProcess:
        """Start the store and a subscriber, tell the pods where they are, and make the first key."""
        store = self._stack.enter_context(MongodbServer(work / "mongodb", need("mongodb")))
        place = self._stack.enter_context(reached_by_pods(store.port))
        self._cluster.secrets["pier"] = {
            "BUS_STORE": f"mongodb://{place}/bus",
            "BUS_SECRET_KEY": "0123456789abcdef" * 2,
        }
        subscriber = self._stack.enter_context(SubscriberProcess(work))
        self._subscriber = self._stack.enter_context(reached_by_pods(subscriber.port))
        self.key = self._first_key()
        self._cluster.secrets["pier-sweeper"] = {"BUS_API_KEY": self.key}
        self._cluster.secrets["pier-key"] = {"key": self.key}
        return subscriber

    def _first_key(self) -> str:
        job = yaml.safe_load((KUBERNETES / "first-key.yaml").read_text("utf-8"))
        pod = Pod(self._cluster, self.second, job).start()
        assert pod.child.wait(60) == 0, pod.child.output()
        return next(line for line in pod.child.output().splitlines() if line.startswith("bus_"))

    def run(self, role: str, node: Path, **env: str) -> Pod:
        """Run a pod of a role on a node, and wait until it serves."""
        pod = Pod(self._cluster, node, self._workloads[role], env=env).start()
        self._stack.callback(pod.kill)
        self._running[role] = pod
        (port,) = self._workloads[role]["spec"]["template"]["spec"]["containers"][0]["ports"]
        url = f"http://{pod.ip}:{port['containerPort']}/healthz"
        wait_until(
            lambda: pod.child.check_running() and _answers(url), within=90, what=pod.name, state=pod.child.output
        )
        return pod

    def configure(self) -> Admin:
        """Run the admin, and make a destination with a subscription."""
        admin = Admin(f"http://{self.run('admin', self.second).ip}:8701")
        admin.authorize(self.key)
        admin.destination("orders")
        admin.subscription("orders", "shop", f"http://{self._subscriber}/shop")
        return admin

    def end_second_node(self) -> list[str]:
        """Run what the node does not run yet, kill all but its sweeper, and return the directories that were there."""
        for role in sorted(set(self._workloads) - set(self._running)):
            self.run(role, self.second)
        before = left_on(self.second)["services"]
        for role in set(self._running) - {"sweeper"}:
            self._running[role].kill()
        return before

    def applications(self, receiver: Pod) -> list[Pod]:
        """Run applications on the first node; the last one never reaches a receiver."""
        found = list(yaml.safe_load_all((KUBERNETES / "example" / "application.yaml").read_text("utf-8")))[-1]
        addresses = [receiver.ip, receiver.ip, NOBODY_THERE]
        pods = []
        for number, (address, user) in enumerate(zip(addresses, USERS[self._folder], strict=True)):
            hosts = {"receiver.pier.svc": address}
            code = APPLICATION.replace("SOURCE", repr(f"service-{number}"))
            pods.append(Pod(self._cluster, self.first, found, hosts=hosts, user=user, code=code).start())
            self._stack.callback(pods[-1].kill)
        return pods


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, **PLAIN).is_success
    except httpx.TransportError:
        return False


def sent_by(pod: Pod) -> list[str]:
    """Return the ids that an application's ``send()`` returned."""
    lines = pod.child.log.read_text("utf-8", errors="replace").split("\n")[:-1]
    return [line for line in lines if len(line) == 36 and line.count("-") == 4]


def left_on(disk: Path) -> dict[str, list[str]]:
    """Return the queues on a node's disk, of producers and of services that are not the sweeper's."""
    services = disk / NODE / "services"
    return {
        "producers": sorted(path.name for path in (disk / NODE / "producers").glob("*.sdk")),
        "services": sorted(path.name for path in services.iterdir() if not path.name.startswith("sweeper")),
    }


def kill_first_node(show: Show) -> dict[str, list[str]]:
    """Have applications send, kill the receiver while they do, then them; return what each ``send()`` had returned."""
    receiver = show.run("receiver", show.first)
    pods = show.applications(receiver)
    wait_until(
        lambda: all(pod.child.check_running() and len(sent_by(pod)) >= ENOUGH for pod in pods),
        within=60,
        what="messages are sent",
        state=lambda: [pod.child.output()[-500:] for pod in pods],
    )
    receiver.kill()
    wait_until(lambda: len(sent_by(pods[0])) >= 2 * ENOUGH, within=60, what="more is sent without a receiver")
    for pod in pods:
        pod.kill()
    return {pod.name: sent_by(pod) for pod in pods}


def shown(image: Image, work: Path, folder: str) -> dict[str, Any]:
    """Kill the first node's processes, and return what came of it."""
    with ExitStack() as stack:
        show = Show(image, work, folder, stack)
        subscriber = show.serve(work)
        for node in (show.first, show.second):
            show.run("sweeper", node, BUS_SWEEP_IDLE="2")
        show.configure()
        sent = kill_first_node(show)
        killed, before = left_on(show.first), subscriber.count("/shop")
        # Nobody delivered until now, so that the receiver's queue held all that it had accepted.
        for role in ("receiver", "dispatcher", "compensator"):
            show.run(role, show.second)
        every = {one for ids in sent.values() for one in ids}

        def state() -> object:
            return (
                left_on(show.first),
                left_on(show.second),
                [path.read_text()[-3000:] for path in work.glob("sweeper*/log")],
            )

        def arrived() -> list[str]:
            return [call.id for call in subscriber.calls("/shop")]

        wait_until(lambda: every <= set(arrived()), within=120, what="all arrive", every=0.5, state=state)
        wait_until(lambda: left_on(show.first) == NOTHING, within=60, what="nothing is left", every=0.5, state=state)
        ended = show.end_second_node()
        wait_until(lambda: left_on(show.second) == NOTHING, within=60, what="nothing is left there", state=state)
        return {"sent": sent, "killed": killed, "before": before, "arrived": arrived(), "ended": ended}


def main() -> None:
    image, work, folder = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    print(json.dumps(shown(Image(ROOT / "deploy" / "image" / "Dockerfile", ROOT, {}, image), work, folder)), flush=True)


if __name__ == "__main__":
    main()
