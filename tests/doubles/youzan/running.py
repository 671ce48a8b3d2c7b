"""The double as a process that a test holds in its hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import Child, module

HOST = "127.0.0.1"
NOT_EXIST = "E_TOPIC_NOT_EXIST"
NOT_LEADER = "E_FAILED_ON_NOT_LEADER"


class NsqdPlace(NamedTuple):
    """Where an nsqd listens."""

    tcp: int
    http: int

    @property
    def place(self) -> str:
        """``host:tcp_port/http_port``, as settings name it."""
        return f"{HOST}:{self.tcp}/{self.http}"


class YouzanDouble:
    """A cluster of the fork; nsqds and nsqlookupds are named by their numbers, which begin with 1.

    Parameters
    ----------
    folder
        For its output; made when it is not there.
    nsqds, lookupds
        How many there are.
    options
        More of its options, such as ``--msg-timeout 0.5``; ``--help`` of the module lists them.

    Attributes
    ----------
    nsqds, lookupds
        Where they are, by number: of nsqlookupds the port of HTTP.
    """

    def __init__(self, folder: Path, *, nsqds: int = 2, lookupds: int = 2, options: tuple[object, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        argv = module("tests.doubles.youzan", "--nsqds", nsqds, "--lookupds", lookupds, *options)
        self.child = Child(argv, log=folder / "youzan.log")
        self.nsqds: dict[int, NsqdPlace] = {}
        self.lookupds: dict[int, int] = {}
        self._control = 0

    @property
    def lookups(self) -> list[str]:
        """``host:port`` of all nsqlookupds, the leading one first."""
        return [f"{HOST}:{port}" for port in self.lookupds.values()]

    def start(self) -> Self:
        """Start it and wait until it serves."""
        self.child.start()
        ready = self.child.ready_line()
        self._control = ready["control"]
        self.nsqds = {one["number"]: NsqdPlace(one["tcp"], one["http"]) for one in ready["nsqds"]}
        self.lookupds = {one["number"]: one["http"] for one in ready["lookupds"]}
        return self

    def stop(self) -> None:
        """End it in order."""
        self.child.stop()

    def create_topic(self, topic: str, *, partitions: int = 1, replicas: int = 1, **flags: bool) -> None:
        """Make a topic by the leading nsqlookupd.

        Parameters
        ----------
        flags
            ``ordered``, ``extended`` and ``registered_channels`` (only channels that were registered may be
            subscribed to).
        """
        names = {"ordered": "orderedmulti", "extended": "extend", "registered_channels": "disable_channel_auto_create"}
        query: dict[str, Any] = {names[flag]: "true" for flag, given in flags.items() if given}
        self.ask_lookupd("POST", "/topic/create", topic=topic, partition_num=partitions, replicator=replicas, **query)

    def create_channel(self, topic: str, channel: str) -> None:
        """Make a channel in all partitions, on the nsqds that lead them."""
        for partition in self.partitions(topic):
            nsqd = self.nsqds[partition["nsqds"][0]]
            query = {"topic": topic, "channel": channel, "partition": partition["partition"]}
            httpx.post(f"http://{HOST}:{nsqd.http}/channel/create", params=query, **PLAIN).raise_for_status()

    def expand(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions; the new ones have no channels."""
        self.ask_lookupd("POST", "/topic/partition/expand", topic=topic, partition_num=partitions)

    def ask_lookupd(self, method: str, path: str, *, lookupd: int = 1, **query: Any) -> httpx.Response:
        """Send a request to an nsqlookupd; raises when it refuses."""
        url = f"http://{HOST}:{self.lookupds[lookupd]}{path}"
        return httpx.request(method, url, params=query, **PLAIN).raise_for_status()

    def leader(self, topic: str, partition: int) -> int:
        """Return the number of the nsqd that leads a partition."""
        nsqds: list[int] = next(one["nsqds"] for one in self.partitions(topic) if one["partition"] == partition)
        return nsqds[0]

    def move_leader(self, topic: str, partition: int, nsqd: int) -> None:
        """Let another nsqd lead: it serves the log, consumers are cut, who publishes to the old one is refused."""
        self._order("/leader", topic=topic, partition=partition, nsqd=nsqd)

    def move_leader_behind(self, topic: str, partition: int, nsqd: int, *, lost: int) -> None:
        """Let an nsqd lead whose copy lacks the last messages, as when all died that had them; others get their ids."""
        self._order("/leader/behind", topic=topic, partition=partition, nsqd=nsqd, lost=lost)

    def lose_answers(self, topic: str, partition: int, count: int) -> None:
        """Cut the connection behind each of the next publishes to a partition, which are written, before the answer."""
        self._order("/unanswered", topic=topic, partition=partition, count=count)

    def set_writable(self, topic: str, partition: int, *, writable: bool) -> None:
        """Let a partition take messages or refuse them; while it does, lookups for writing leave it out."""
        self._order("/writable", topic=topic, partition=partition, writable=writable)

    def set_failing(self, topic: str, partition: int, *, failing: bool) -> None:
        """Let each publish to a partition end in E_PUB_FAILED, or no longer."""
        self._order("/failing", topic=topic, partition=partition, failing=failing)

    def lose(self, topic: str, partition: int, error: str = NOT_EXIST) -> None:
        """Lose a partition: lookups leave it out, and its nsqds answer with this error."""
        self._order("/lose", topic=topic, partition=partition, error=error)

    def find(self, topic: str, partition: int) -> None:
        """Bring a lost partition back, with its messages."""
        self._order("/find", topic=topic, partition=partition)

    def kill_nsqd(self, nsqd: int) -> None:
        """Stop an nsqd from listening and cut its connections; its partitions are led by who has a copy, later."""
        self._order("/nsqd/kill", nsqd=nsqd)

    def restart_nsqd(self, nsqd: int) -> None:
        """Start an nsqd that was killed, on the same ports and with its messages."""
        self._order("/nsqd/restart", nsqd=nsqd)

    def hang_nsqd(self, nsqd: int) -> None:
        """Have an nsqd take connections and bytes, and answer and send nothing; lookups go on to name it."""
        self._order("/nsqd/hang", nsqd=nsqd)

    def wake_nsqd(self, nsqd: int) -> None:
        """Have an nsqd go on that hung, with what it was sent meanwhile too."""
        self._order("/nsqd/wake", nsqd=nsqd)

    def set_lookupd(self, lookupd: int, **changes: object) -> None:
        """Change an nsqlookupd.

        Parameters
        ----------
        changes
            ``delay`` (seconds before each answer), ``fault`` (``garbage``, ``half``, ``cut``, ``500`` or None),
            ``running`` (whether it listens), ``leads`` (True: it becomes the one that takes changes).
        """
        self._order("/lookupd", lookupd=lookupd, **changes)

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """Return the partitions of a topic as they are: nsqds (the leader first), writable, electing, lost."""
        return [one for one in self.state()["partitions"] if one["topic"] == topic]

    def asked(self, lookupd: int = 1, path: str | None = None) -> list[dict[str, Any]]:
        """Return what an nsqlookupd was asked, oldest first: method, path, query, accept."""
        journal = self._order("/journal", lookupd=lookupd)
        return [one for one in journal if path in {None, one["path"]}]

    def commands(self, nsqd: int, *names: str) -> list[dict[str, Any]]:
        """Return the commands that an nsqd got, oldest first: connection, command, params, identify."""
        journal = self._order("/journal", nsqd=nsqd)
        return [one for one in journal if not names or one["command"] in names]

    def counters(self, nsqd: int) -> dict[str, int]:
        """Return what an nsqd counted: commands, codes of errors, published, delivered, finished, requeued, ..."""
        found: dict[str, int] = self.state()["counters"][str(nsqd)]
        return found

    def forget(self) -> None:
        """Empty the journals."""
        self._order("/forget")

    def state(self) -> dict[str, Any]:
        """Return the counters of all nsqds, and all partitions."""
        found: dict[str, Any] = self._order("/state")
        return found

    def _order(self, path: str, **order: object) -> Any:
        answer = httpx.post(f"http://{HOST}:{self._control}{path}", json=order, **PLAIN)
        if answer.is_error:
            raise ValueError(answer.text)
        return answer.json()

    def __enter__(self) -> Self:
        return self if self.child.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.child.kill()
