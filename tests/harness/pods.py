"""Pods as manifests of Kubernetes describe them, without a cluster.

Each is a process of the image, with the namespaces, mounts, variables, user and rights that its container has.

For root in a network of its own (``unshare --net --mount``), in which a bridge joins the pods.
"""

from __future__ import annotations

import itertools
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from tests.harness.image import Image, StepFailed
from tests.harness.process import Child

Object = dict[str, Any]
_SETUP: Final = """
set -e
mount -t tmpfs tmpfs /run/netns 2>/dev/null || { mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns; }
ip link set lo up
ip link add br0 type bridge
ip addr add 10.77.0.1/24 dev br0
ip link set br0 up
"""
_ATTACH: Final = """
set -e
ip netns add pod{n}
ip link add veth{n} type veth peer name eth0 netns pod{n}
ip link set veth{n} master br0 up
ip -n pod{n} addr add 10.77.0.{n}/24 dev eth0
ip -n pod{n} link set lo up
ip -n pod{n} link set eth0 up
"""
_START: Final = """
set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
while read -r source target; do mount --bind "$source" "$ROOT$target"; done < "$MOUNTS"
exec chroot "$ROOT" setpriv --reuid="$USER_ID" --regid="$GROUP_ID" --clear-groups --no-new-privs \
    --bounding-set="$RIGHTS" --inh-caps=-all env -i "$@"
"""
HERE: Final = "10.77.0.1"
NOBODY_THERE: Final = "10.77.0.250"


class Cluster(NamedTuple):
    """What all pods have: an image, configuration and secrets by name, and addresses of services."""

    image: Image
    folder: Path
    maps: dict[str, dict[str, str]]
    secrets: dict[str, dict[str, str]]
    hosts: dict[str, str]
    numbers: Iterator[int]


def cluster(image: Image, folder: Path) -> Cluster:
    """Make a network and return a cluster without pods."""
    _shell(_SETUP)
    return Cluster(image, folder, {}, {}, {}, itertools.count(2))


class Pod:
    """One pod on a node.

    Parameters
    ----------
    disk
        The node's: what hangs below it is what the node has at ``/``.
    hosts
        Addresses that this pod is told in place of the cluster's.
    code
        A program for the image's Python, in place of what the container runs: of an application.
    """

    def __init__(
        self,
        cluster: Cluster,
        disk: Path,
        workload: Object,
        *,
        hosts: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        user: int | None = None,
        code: str = "",
    ) -> None:
        self._number = next(cluster.numbers)
        _shell(_ATTACH.format(n=self._number))
        self.ip = f"10.77.0.{self._number}"
        self.name = f"{workload['metadata']['name']}-{self._number}"
        self.disk = disk
        self._cluster = cluster
        self._hosts = cluster.hosts | dict(hosts or {})
        self._env = dict(env or {})
        self._user = user
        self._code = code
        self._spec: Object = workload["spec"]["template"]["spec"]
        self._own = cluster.folder / self.name
        self._own.mkdir()
        self.child = Child([], log=self._own / "log")

    def start(self) -> Self:
        """Run the containers that prepare, each to its end, and then the pod's own."""
        for container in self._spec.get("initContainers", []):
            done = self._process(container).start()
            if done.wait(60):
                raise StepFailed(f"{self.name}: {done.output()}")
        self.child = self._process(self._spec["containers"][0]).start()
        return self

    def kill(self) -> None:
        """SIGKILL all of it at once."""
        self.child.kill()

    def _process(self, container: Object) -> Child:
        context = self._spec.get("securityContext", {}) | container.get("securityContext", {})
        mounts = self._own / f"{container['name']}.mounts"
        mounts.write_text("".join(f"{source} {target}\n" for source, target in self._mounts(container)), "utf-8")
        added = context.get("capabilities", {}).get("add", [])
        user = self._user if self._user is not None else context["runAsUser"]
        settings = {
            "ROOT": str(self._cluster.image.root),
            "MOUNTS": str(mounts),
            "USER_ID": str(user),
            "GROUP_ID": str(user),
            "RIGHTS": ",".join(["-all", *(f"+{right.lower()}" for right in added)]),
        }
        enter = [
            "nsenter",
            f"--net=/run/netns/pod{self._number}",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ]
        inside = [*(f"{name}={value}" for name, value in self._variables(container).items()), *self._words(container)]
        return Child([*enter, "sh", "-c", _START, "sh", *inside], log=self._own / "log", env=settings)

    def _words(self, container: Object) -> list[str]:
        if self._code:
            return ["python", "-c", self._code]
        stage = self._cluster.image.stage
        command = container.get("command", stage.last("ENTRYPOINT").words)
        return [*command, *container.get("args", [] if "command" in container else stage.last("CMD").words)]

    def _variables(self, container: Object) -> dict[str, str]:
        """Return the environment: the image's, then maps and secrets whole, then what is named."""
        found = self._cluster.image.environment
        for source in container.get("envFrom", []):
            if "configMapRef" in source:
                found |= self._cluster.maps[source["configMapRef"]["name"]]
            else:
                found |= self._cluster.secrets[source["secretRef"]["name"]]
        for each in container.get("env", []):
            value = self._value(each)
            if value is not None:
                found[each["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], value)
        return found | self._env

    def _value(self, each: Object) -> str | None:
        if "value" in each:
            return str(each["value"])
        source = each["valueFrom"]
        if "fieldRef" in source:
            return {"metadata.name": self.name, "status.podIP": self.ip}[source["fieldRef"]["fieldPath"]]
        wanted = source["secretKeyRef"]
        secret = self._cluster.secrets.get(wanted["name"], {})
        return secret.get(wanted["key"]) if wanted.get("optional") else secret[wanted["key"]]

    def _mounts(self, container: Object) -> Iterator[tuple[Path, str]]:
        yield self._hosts_file(), "/etc/hosts"
        volumes = {volume["name"]: volume for volume in self._spec["volumes"]}
        for mount in container["volumeMounts"]:
            target = mount["mountPath"]
            place = self._cluster.image.root / target.lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
            yield self._source(volumes[mount["name"]]), target

    def _source(self, volume: Object) -> Path:
        """Return the folder of a volume, which a node makes or not, as its kind says."""
        if (host := volume.get("hostPath")) is not None:
            path = self.disk / host["path"].lstrip("/")
            if host["type"] == "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                raise StepFailed(f"{self.name} waits: {host['path']} is not there")
            return path
        path = self._own / volume["name"]
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
        for name, text in self._cluster.maps.get(volume.get("configMap", {}).get("name", ""), {}).items():
            (path / name).write_text(text, "utf-8")
        return path

    def _hosts_file(self) -> Path:
        (self._cluster.image.root / "etc/hosts").touch()
        path = self._own / "hosts"
        names = {"localhost": "127.0.0.1", self.name: self.ip} | self._hosts
        path.write_text("".join(f"{address} {name}\n" for name, address in names.items()), "utf-8")
        return path


@contextmanager
def reached_by_pods(port: int) -> Iterator[str]:
    """Pass on what pods send to this address to a port of loopback, where servers of tests are; yield ``HOST:PORT``."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=_pump, args=(server, self.request), daemon=True)
                back.start()
                _pump(self.request, server)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    with Server((HERE, port), Passing) as passing:
        threading.Thread(target=passing.serve_forever, daemon=True).start()
        yield f"{HERE}:{port}"
        passing.shutdown()


def _pump(source: Any, target: Any) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(1)
    except OSError:
        return


def _shell(script: str) -> None:
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepFailed(done.stderr)


def privately(words: Sequence[str]) -> list[str]:
    """Return a command line that runs another where a cluster can be made, and with whose end all in it ends."""
    return ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *words]
