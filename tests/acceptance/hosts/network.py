"""Hosts as network namespaces on one bridge: packets from one to another can be made to vanish, and answers be slow.

For root in a network of its own (``unshare --net --mount``). The network that all of it begins in is the bridge's: it
reaches every host, whatever is cut.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_NAMESPACES: Final = Path("/run/netns")
_NEWNET: Final = 0x40000000
_SETUP: Final = """
set -e
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
ip link set lo up
ip link add br0 type bridge
ip addr add 10.78.0.1/24 dev br0
ip link set br0 up
"""
_ATTACH: Final = """
set -e
ip netns add {name}
ip link add v{name} type veth peer name eth0 netns {name}
ip link set v{name} master br0 up
ip -n {name} link set eth0 address {mac}
ip -n {name} addr add {ip}/24 dev eth0
ip -n {name} link set lo up
ip -n {name} link set eth0 up
"""
_NO_SUCH_PLACE: Final = "02:00:00:00:ff:ff"


class Host:
    """One namespace.

    Attributes
    ----------
    enter
        The command line that runs another one in it.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.ip = f"10.78.0.{number}"
        self.enter = ["nsenter", f"--net={_NAMESPACES / name}"]
        self._mac = f"02:00:00:00:00:{number:02x}"
        _shell(_ATTACH.format(name=name, mac=self._mac, ip=self.ip))

    def lose(self, other: Host) -> None:
        """Drop every packet from here to another host, without an error."""
        self._send_to(other, _NO_SUCH_PLACE)

    def reach(self, other: Host) -> None:
        """Undo ``lose``."""
        self._send_to(other, other._mac)

    def _send_to(self, other: Host, mac: str) -> None:
        _shell(f"ip -n {self.name} neigh replace {other.ip} lladdr {mac} dev eth0 nud permanent")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread's new sockets belong to the host."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _join(_NAMESPACES / self.name)
            yield
        finally:
            _set_namespace(here)
            os.close(here)


class Relay:
    """A port of a host whose connections go on to a server on the loopback of the bridge's network.

    Attributes
    ----------
    delay
        Seconds that each piece of a stream waits, of either direction.
    """

    def __init__(self, host: Host, port: int) -> None:
        self.address = f"{host.ip}:{port}"
        self.delay = 0.0
        self._upstream = ("127.0.0.1", port)
        with host.inside():
            self._listening = socket.create_server((host.ip, port), backlog=256)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listening.accept()
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._upstream) as server:
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                if self.delay:
                    time.sleep(self.delay)
                target.sendall(piece)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def make_network() -> None:
    """Make the bridge, in a network that has nothing yet."""
    _shell(_SETUP)


def _join(path: Path) -> None:
    namespace = os.open(path, os.O_RDONLY)
    try:
        _set_namespace(namespace)
    finally:
        os.close(namespace)


def _set_namespace(descriptor: int) -> None:
    # os.setns is there from Python 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _shell(script: str) -> None:
    subprocess.run(["sh", "-c", script], check=True, capture_output=True)
