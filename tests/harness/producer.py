"""A producer process on the SDK: ``python -m tests.harness.producer --url URL --spool DIR --history FILE ...``.

It logs ``invoke`` before each ``send()``, ``ok`` after it returned, and ``info`` when neither disk nor network took it.
Killed and started again it goes on after the last number that its history names; a send that a kill interrupted stays
without an answer and is not repeated. When all were sent it prints ``{"sent": N}`` and stays, so that the SDK can empty
its spool, until SIGTERM.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bus import Bus, InvalidDestination, MessageTooLarge
from bus.errors import SpoolError
from tests.harness.history import History, read_history


def body_of(seq: int, process: str, size: int) -> bytes:
    """Return a JSON body that begins with its number and is unique."""
    start = f'{{"seq":{seq},"process":"{process}","pad":"'
    return f'{start}{"x" * max(0, size - len(start) - 2)}"}}'.encode()


def key_of(seq: int, process: str, keys: int) -> str:
    """Return the key of a message: the process's name, or one of several."""
    return process if keys == 1 else f"{process}.{seq % keys}"


def next_seq(history: Path) -> int:
    """Return the number after the last one that was tried."""
    return max((event.seq for event in read_history(history) if event.seq is not None), default=-1) + 1


def send_all(send: Callable[..., str], history: History, arguments: argparse.Namespace) -> None:
    """Send what is left, on schedule if there is a rate."""
    first = next_seq(arguments.history)
    started = time.monotonic()
    for seq in range(first, arguments.count):
        wait = (seq - first) / arguments.rate - (time.monotonic() - started) if arguments.rate else 0
        if wait > 0:
            time.sleep(wait)
        send_one(send, history, seq, arguments)


def send_one(send: Callable[..., str], history: History, seq: int, arguments: argparse.Namespace) -> None:
    """Send one message and log it before and after."""
    body = body_of(seq, arguments.process, arguments.size)
    sha256, key = hashlib.sha256(body).hexdigest(), key_of(seq, arguments.process, arguments.keys)
    history.publish("invoke", seq, sha256, key=key)
    try:
        sent = send(body, key=key, biz_id=str(seq), content_type="application/json")
    except (InvalidDestination, MessageTooLarge):
        history.publish("fail", seq, sha256, key=key)
    except SpoolError:
        # The disk refused it, and the receiver, which was asked then, may have it all the same: its answer may be lost.
        history.publish("info", seq, sha256, key=key)
    except Exception:
        history.publish("info", seq, sha256, key=key)
        raise
    else:
        history.publish("ok", seq, sha256, key=key, id=sent)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.producer")
    parser.add_argument("--url", required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--spool", type=Path, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--destination", required=True)
    parser.add_argument("--process", default="producer", help="its name, also the key of its messages")
    parser.add_argument("--keys", type=int, default=1, help="how many keys its messages have in turn")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=float, default=0.0, help="messages a second, 0 for as fast as it goes")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--takeover", type=float, help="send alone, once no other one has for so many seconds")
    arguments = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with Bus(arguments.url, arguments.api_key, spool=str(arguments.spool), source=arguments.process) as bus:
        with ExitStack() as stack:
            send: Callable[..., str] = partial(bus.send, arguments.destination)
            if arguments.takeover:
                alone = bus.sender(arguments.destination, wait=None, takeover_after=arguments.takeover)
                send = stack.enter_context(alone).send
            send_all(send, History(arguments.history, arguments.process), arguments)
        print(json.dumps({"sent": arguments.count}), flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
