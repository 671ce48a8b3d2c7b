"""A real subscriber process: ``python -m tests.harness.subscriber --port 0 --record FILE --path /slow=delay:0.2``.

With ``--record`` each message of a call is a line of JSON, written (and with ``--fsync`` durable) before it is answered
2xx. With ``--tally`` it is a cheap sink for benchmarks that keeps only sequence numbers and times in memory. It prints
``{"port": N}`` when it serves, and exits 0 on SIGTERM.

Control calls, beside the paths of subscriptions: ``GET /_count?PATH``, ``GET /_tally?PATH`` (see ``load_tally``),
``POST /_reset``, ``POST /_path`` with a specification such as ``/slow=delay:0.2`` as the body.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import re
import signal
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, cast

import httptools
import msgspec
import uvloop
from standardwebhooks import Webhook, WebhookVerificationError

from tests.harness.behaviour import Behaviour, parse_paths
from tests.harness.records import Call, Recorder, Tally

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
UNSIGNED = b"HTTP/1.1 401 Unsigned\r\ncontent-length: 0\r\n\r\n"
SEQ_PREFIX = b'{"seq":'
BATCHED_SEQ = re.compile(rb',"body":\{"seq": *(\d+)')
BATCH_OF = {
    "application/x-ndjson": bytes.splitlines,
    "application/json": msgspec.json.Decoder(list[msgspec.Raw]).decode,
}
Fate = Literal["answer", "refuse", "cut", "stall"]


def parse_seq(body: bytes) -> int | None:
    """Return the number of a body that begins with ``{"seq":NUMBER,``."""
    if not body.startswith(SEQ_PREFIX):
        return None
    number = body[len(SEQ_PREFIX) : body.find(b",", len(SEQ_PREFIX), 40)].strip()
    return int(number) if number.isdigit() else None


class Entry(msgspec.Struct):
    """A message of a batch."""

    id: str
    attempt: int
    destination: str
    content_type: str
    key: str = ""
    biz_id: str = ""
    body: msgspec.Raw = msgspec.Raw()
    body_base64: bytes = b""


_read_entry = msgspec.json.Decoder(Entry).decode


class Route:
    """One path of the server: its behaviour, and what it counts."""

    def __init__(self, name: str, behaviour: Behaviour) -> None:
        self.name = name
        self.tally = Tally()
        self.count = 0
        self.in_flight = 0
        self.configure(behaviour)

    def configure(self, behaviour: Behaviour) -> None:
        """Behave otherwise from the next call on."""
        self.behaviour = behaviour
        self.webhook = Webhook(behaviour.secret) if behaviour.secret else None
        self._dice = behaviour.dice(self.name)
        extra = f"retry-after: {behaviour.retry_after}\r\n" if behaviour.retry_after is not None else ""
        extra += "location: /elsewhere\r\n" if behaviour.status // 100 == 3 else ""
        self.refusal = f"HTTP/1.1 {behaviour.status} Refused\r\n{extra}content-length: 0\r\n\r\n".encode()

    def fate(self, seq: int | None = None, attempt: int = 0) -> Fate:
        """Decide about one call, of the message with this number, by its attempt (from 1) where that is known."""
        behaviour, roll = self.behaviour, self._dice.random()
        if 0 < attempt <= behaviour.first:
            return "refuse"
        if behaviour.poison and seq is not None and seq % behaviour.poison == 0:
            return "refuse"
        shares: dict[Fate, float] = {"refuse": behaviour.fail, "cut": behaviour.cut, "stall": behaviour.stall}
        for fate, share in shares.items():
            if roll < share:
                return fate
            roll -= share
        return "answer"

    def fails_one(self) -> bool:
        """Decide about one message of a batch."""
        return self._dice.random() < self.behaviour.fail_each

    def signed(self, body: bytes, headers: dict[str, str]) -> bool | None:
        """Whether the signature is right; None when there is no secret to tell."""
        if self.webhook is None:
            return None
        try:
            body.decode()
        except UnicodeDecodeError:  # which the library cannot verify
            return self._is_signed_as_bytes(body, headers)
        try:
            self.webhook.verify(body, headers, json_parse=False)
        except (WebhookVerificationError, ValueError):
            return False
        return True

    def _is_signed_as_bytes(self, body: bytes, headers: dict[str, str]) -> bool:
        key = base64.b64decode((self.behaviour.secret or "").removeprefix("whsec_"))
        content = f"{headers.get('webhook-id')}.{headers.get('webhook-timestamp')}.".encode() + body
        wanted = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
        return f"v1,{wanted}" in headers.get("webhook-signature", "").split()


class Server:
    """The state that all connections share."""

    def __init__(self, default: Behaviour, paths: dict[str, Behaviour], recorder: Recorder | None) -> None:
        self.recorder = recorder
        self._default = default
        self._paths = {name.encode(): Route(name, behaviour) for name, behaviour in paths.items()}

    def path(self, url: bytes) -> Route:
        """Return a path, made with the default behaviour when it is new."""
        found = self._paths.get(url)
        if found is None:
            found = self._paths[url] = Route(url.decode("latin-1"), self._default)
        return found

    def control(self, url: bytes, body: bytes) -> bytes:
        """Answer a control call."""
        verb, _, name = url.partition(b"?")
        if verb == b"/_count":
            return str(self.path(name).count).encode()
        if verb == b"/_tally":
            return self.path(name).tally.dump()
        if verb == b"/_reset":
            for path in self._paths.values():
                path.tally, path.count = Tally(), 0
            return b""
        if verb == b"/_path":
            for changed, behaviour in parse_paths([body.decode()], self._default).items():
                self.path(changed.encode()).configure(behaviour)
            return b""
        raise LookupError(url)


class Connection(asyncio.Protocol):
    """One client's connection; requests on it come one after another."""

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_message_begin(self) -> None:
        self._url = self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._url.startswith(b"/_"):
            self._control()
        else:
            self.called(self._server.path(self._url), self._body)

    def called(self, path: Route, body: bytes) -> None:
        """Handle a call of a path."""
        raise NotImplementedError

    def later(self, path: Route, then: Callable[[], None]) -> None:
        """Run ``then`` after the path's delay; never when it hangs."""
        if path.behaviour.delay:
            asyncio.get_running_loop().call_later(path.behaviour.delay, then)
        elif not path.behaviour.hang:
            then()

    def answer(self, response: bytes) -> None:
        """Write a response unless the client is gone."""
        if self.transport.is_closing():
            return
        self.transport.write(response)
        if not self._parser.should_keep_alive():
            self.transport.close()

    def _control(self) -> None:
        try:
            content = self._server.control(self._url, self._body)
        except (LookupError, ValueError) as error:
            text = str(error).encode()
            self.answer(b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))
        else:
            self.answer(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content))


class TallyConnection(Connection):
    """Keeps the sequence number and the time of arrival; reads no headers."""

    def called(self, path: Route, body: bytes) -> None:
        path.tally.times.append(time.monotonic())
        path.tally.seqs.append(int(body[7 : body.index(b",", 7)]) if body.startswith(SEQ_PREFIX) else -1)
        path.count += 1
        if (path.behaviour.fail or path.behaviour.poison) and path.fate(path.tally.seqs[-1]) == "refuse":
            self.later(path, lambda: self.answer(path.refusal))
        else:
            self.later(path, lambda: self.answer(OK))


class BatchTallyConnection(Connection):
    """Keeps the sequence number of each message of a batch, one a line with its body at the end."""

    def called(self, path: Route, body: bytes) -> None:
        now = time.monotonic()
        found = [int(number) for number in BATCHED_SEQ.findall(body)]
        path.tally.times.extend([now] * len(found))
        path.tally.seqs.extend(found)
        path.count += len(found)
        self.later(path, lambda: self.answer(OK))


class RecordConnection(Connection):
    """Verifies the signature, and writes a record before it answers."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._headers: dict[str, str] = {}

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def called(self, path: Route, body: bytes) -> None:
        attempt = self._headers.get("bus-attempt", "")
        fate = path.fate(parse_seq(body), int(attempt) if attempt.isdigit() else 0)
        if fate == "stall":
            return
        path.in_flight += 1
        signature = path.signed(body, self._headers)
        status, response = (401, UNSIGNED) if signature is False else self._answers(path)[fate]
        calls = [self._call(path, body, status, signature)]
        if "bus-batch" in self._headers:
            calls = [self._of_batch(calls[0], bytes(entry)) for entry in self._entries(body)]
            if response is OK:
                response = self._list_failed(path, calls)
        self.later(path, lambda: self._record(path, calls, status, response))

    def _answers(self, path: Route) -> dict[Fate, tuple[int, bytes]]:
        """Return status and bytes of each answer; one that is cut off has no status."""
        return {"answer": (200, OK), "refuse": (path.behaviour.status, path.refusal), "cut": (0, OK[:10])}

    def _entries(self, body: bytes) -> Sequence[bytes | msgspec.Raw]:
        entries = BATCH_OF[self._headers["content-type"]](body)
        if len(entries) != int(self._headers["bus-batch"]):
            raise ValueError(f"bus-batch is not {len(entries)}")
        return entries

    @staticmethod
    def _of_batch(call: Call, entry: bytes) -> Call:
        found = _read_entry(entry)
        body = bytes(found.body) or found.body_base64
        return msgspec.structs.replace(
            call,
            id=found.id,
            sha256=hashlib.sha256(body).hexdigest(),
            attempt=found.attempt,
            destination=found.destination,
            bytes=len(body),
            key=found.key,
            biz_id=found.biz_id,
            content_type=found.content_type,
            seq=parse_seq(body),
            batch=call.id,
        )

    @staticmethod
    def _list_failed(path: Route, calls: list[Call]) -> bytes:
        failed = [call for call in calls if path.fails_one()]
        for call in failed:
            call.status = 0
        body = json.dumps({"failed": [call.id for call in failed]}).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    def _record(self, path: Route, calls: list[Call], status: int, response: bytes) -> None:
        def answer() -> None:
            path.in_flight -= 1
            path.count += 1
            if path.behaviour.trickle:
                self._trickle(response, path.behaviour.trickle / len(response))
            else:
                self.answer(response)
            if not status:
                self.transport.close()

        if self._server.recorder is None:
            answer()
        else:
            self._server.recorder.add(calls, answer)

    def _trickle(self, response: bytes, pause: float) -> None:
        if len(response) == 1:
            self.answer(response)
        elif not self.transport.is_closing():
            self.transport.write(response[:1])
            asyncio.get_running_loop().call_later(pause, self._trickle, response[1:], pause)

    def _call(self, path: Route, body: bytes, status: int, signature: bool | None) -> Call:
        header = self._headers.get
        attempt = header("bus-attempt", "")
        return Call(
            t=time.time(),
            path=path.name,
            id=header("webhook-id", ""),
            sha256=hashlib.sha256(body).hexdigest(),
            status=status,
            attempt=int(attempt) if attempt.isdigit() else 0,
            destination=header("bus-destination", ""),
            bytes=len(body),
            in_flight=path.in_flight,
            epoch=int(header("bus-epoch", "0")),
            key=header("bus-key", ""),
            biz_id=header("bus-biz-id", ""),
            content_type=header("content-type", ""),
            seq=parse_seq(body),
            signature=signature,
        )


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    default = Behaviour(
        delay=arguments.delay,
        fail=arguments.fail_rate,
        hang=arguments.hang,
        seed=arguments.seed,
        secret=arguments.secret,
    )
    recorder = Recorder(arguments.record, fsync=arguments.fsync) if arguments.record else None
    server = Server(default, parse_paths(arguments.path, default), recorder)
    tally = BatchTallyConnection if arguments.batches else TallyConnection
    connection = tally if arguments.tally else RecordConnection
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    context = None
    if arguments.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(arguments.certificate)
    listener = await loop.create_server(
        lambda: connection(server), "127.0.0.1", arguments.port, backlog=2048, ssl=context
    )
    print(json.dumps({"port": listener.sockets[0].getsockname()[1]}), flush=True)
    await stopping.wait()
    listener.close()
    if recorder is not None:
        recorder.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.subscriber")
    parser.add_argument("--port", type=int, default=0, help="0 for any free one")
    parser.add_argument("--record", type=Path, help="file for a JSON line per call")
    parser.add_argument("--fsync", action="store_true", help="records are durable before the answer")
    parser.add_argument("--tally", action="store_true", help="only numbers and times, in memory")
    parser.add_argument("--batches", action="store_true", help="with --tally: each call is a batch")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--fail-rate", type=float, default=0.0, help="share of calls answered 503")
    parser.add_argument("--hang", action="store_true", help="never answer")
    parser.add_argument("--secret", help="whsec_...: verify signatures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--certificate", type=Path, help="PEM file of a certificate and its key: serve https")
    parser.add_argument("--path", action="append", default=[], metavar="/PATH=delay:S,fail:P,status:N,hang,secret:S")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
