"""The HTTP API of an nsqd. It makes no topics: in a cluster that is for the leading nsqlookupd."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.doubles.youzan.channel import Channel
from tests.doubles.youzan.frames import LARGEST_MESSAGE, Command
from tests.doubles.youzan.httpd import Answer, Request
from tests.doubles.youzan.identity import VERSION
from tests.doubles.youzan.nsqd import HOST, Nsqd
from tests.doubles.youzan.publishing import default_partition, publish
from tests.doubles.youzan.refusals import NOT_EXIST, Refused
from tests.doubles.youzan.replies import Problem, Routes, argument, negotiated, plain, routed, version_1
from tests.doubles.youzan.session import Session
from tests.doubles.youzan.topics import Partition, Topic, valid_name


class NsqdApi:
    """What one nsqd answers over HTTP."""

    def __init__(self, nsqd: Nsqd) -> None:
        self._nsqd = nsqd
        self._routes: Routes = {
            ("GET", "/ping"): plain(lambda _: "OK"),
            ("GET", "/info"): negotiated(self._info),
            ("GET", "/stats"): negotiated(self._stats),
            ("POST", "/pub"): negotiated(self._publish),
            ("POST", "/channel/create"): version_1(self._create_channel),
            ("POST", "/channel/delete"): version_1(self._delete_channel),
        }

    @property
    def handler(self) -> Callable[[Request], Awaitable[Answer]]:
        """What its HTTP server serves."""

        async def answer(request: Request) -> Answer:
            await self._nsqd.awake.wait()
            return routed(self._routes, request)

        return answer

    def _info(self, _: Request) -> dict[str, Any]:
        return {
            "version": VERSION,
            "broadcast_address": HOST,
            "hostname": "double",
            "http_port": self._nsqd.http,
            "tcp_port": self._nsqd.tcp,
            "start_time": self._nsqd.started,
            "ha_support": True,
        }

    def _stats(self, request: Request) -> dict[str, Any]:
        wanted, channel = request.query.get("topic"), request.query.get("channel")
        topics = [
            _topic_stats(self._nsqd.number, topic, one, channel)
            for topic in self._nsqd.topics
            if wanted in {None, "", topic.name}
            for one in topic.on(self._nsqd.number)
        ]
        producers = [_client(session) for session in self._nsqd.sessions.values() if session.channel is None]
        return {
            "version": VERSION,
            "health": "OK",
            "start_time": self._nsqd.started,
            "topics": topics,
            "producers": producers,
        }

    def _publish(self, request: Request) -> str:
        if not request.body:
            raise Problem(406, "MSG_EMPTY")
        if len(request.body) > LARGEST_MESSAGE:
            raise Problem(413, "MSG_TOO_BIG")
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        command = Command("PUB", [name.encode(), request.query.get("partition", "-1").encode()])
        try:
            partition, entries, answer = publish(self._nsqd.topics, self._nsqd.number, command, request.body)
        except Refused as refused:
            raise Problem(404 if refused.code == NOT_EXIST else 400, refused.code) from None
        self._nsqd.published(partition, entries)
        return answer.decode()

    def _create_channel(self, request: Request) -> None:
        _, partition, channel = self._place(request)
        partition.channel(channel)
        self._nsqd.changed()

    def _delete_channel(self, request: Request) -> None:
        _, partition, channel = self._place(request)
        try:
            partition.check_leader(self._nsqd.number, closes=False)
        except Refused as refused:
            raise Problem(400, refused.code) from None
        if (removed := partition.channels.pop(channel, None)) is None:
            raise Problem(500, "channel does not exist")
        self._nsqd.cut(lambda session: session.channel is removed)
        self._nsqd.changed()

    def _place(self, request: Request) -> tuple[Topic, Partition, str]:
        name = argument(request, "topic", "MISSING_ARG_TOPIC")
        channel = argument(request, "channel", "MISSING_ARG_CHANNEL")
        if not valid_name(channel):
            raise Problem(400, "INVALID_ARG_CHANNEL")
        topic, node = self._nsqd.topics.find(name), self._nsqd.number
        if topic is None:
            raise Problem(404, NOT_EXIST)
        number = int(request.query.get("partition", default_partition(topic, node)))
        partition = next((one for one in topic.on(node) if one.number == number), None)
        if partition is None:
            raise Problem(404, NOT_EXIST)
        return topic, partition, channel


def _topic_stats(node: int, topic: Topic, partition: Partition, channel: str | None) -> dict[str, Any]:
    channels = [one for one in partition.channels.values() if channel in {None, "", one.name}]
    return {
        "topic_name": topic.name,
        "topic_full_name": f"{topic.name}-{partition.number}",
        "topic_partition": str(partition.number),
        "channels": [_channel_stats(one) for one in channels],
        "depth": partition.log.end,
        "backend_depth": partition.log.end,
        "message_count": len(partition.log.entries),
        "is_leader": partition.leader == node and partition.registered and partition.writable,
        "is_multi_ordered": topic.meta.ordered,
        "is_ext": topic.meta.extend_support,
        "is_channel_auto_create_disabled": topic.meta.disable_channel_auto_create,
    }


def _channel_stats(channel: Channel) -> dict[str, Any]:
    return {
        "channel_name": channel.name,
        "depth": channel.depth,
        "in_flight_count": len(channel.in_flight),
        "deferred_count": channel.deferred,
        "message_count": channel.total,
        "requeue_count": channel.requeued,
        "timeout_count": channel.timed_out,
        "clients": [_client(one) for one in channel.consumers if isinstance(one, Session)],
        "client_num": len(channel.consumers),
        "paused": False,
    }


def _client(session: Session) -> dict[str, Any]:
    return {
        "name": session.identity.client_id,
        "client_id": session.identity.client_id,
        "hostname": session.identity.hostname,
        "user_agent": session.identity.user_agent,
        "version": "V2",
        "remote_address": session.remote,
        "ready_count": session.ready,
        "in_flight_count": session.channel.held_by(session) if session.channel else 0,
        "msg_timeout": int(session.msg_timeout * 1000),
    }
