"""Sending a frozen selection to a receiver, in order, at a rate, and going on where it was broken off."""

from __future__ import annotations

import base64
import datetime as dt
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import msgspec

from bus.domain.replay import Replay
from bus.domain.times import format_time
from bus.errors import ReceiverUnavailable
from pipeline.errors import JobFailed
from pipeline.lake.manifest import Manifest
from pipeline.lake.storage import Storage
from pipeline.schemas import REPLAYS

PATIENCE: Final = 60.0  # seconds for which a receiver that does not take a batch is asked again
_MOST_LINES: Final = 500
_MOST_BYTES: Final = 4 * 2**20
_MOST_REJECTED: Final = 1_000
_PAUSE: Final = 0.5
_TOO_MANY: Final = 429
_ITS_FAULT: Final = 500
_SAME: Final = ("destination", "source", "biz_id", "key", "routing_key", "content_type", "traceparent", "tracestate")
_NDJSON: Final = {"content-type": "application/x-ndjson"}


class ReplayProgress(msgspec.Struct):
    """The progress of a replay; ``after`` is the last original id, in order, whose message was accepted or rejected.

    A batch that was sent but not noted here is sent again, with the same ids, by which the receiver recognizes it.
    """

    after: str = ""
    accepted: int = 0
    rejected: dict[str, str] = {}

    @property
    def done(self) -> int:
        """Number of messages that were accepted or rejected."""
        return self.accepted + len(self.rejected)


class Receiver(Protocol):
    """The receiver of batches: ``bus.cli.api.Api``."""

    def call(self, method: str, path: str, *, content: bytes, headers: dict[str, str]) -> Any:
        """Make a call and return the answer's JSON."""
        ...


def sending_of(storage: Storage, name: str) -> ReplayProgress:
    """Return the progress of a replay."""
    path = _path(name)
    return msgspec.json.decode(storage.read(path), type=ReplayProgress) if storage.exists(path) else ReplayProgress()


def send(
    storage: Storage, manifest: Manifest, receiver: Receiver, rate: float, tell: Callable[[ReplayProgress], None]
) -> ReplayProgress:
    """Send what is left of a replay, and return how it ended; ``tell`` is called after each batch.

    One batch is in flight at a time, in the order of the original ids, so that messages of one key keep their order.

    Raises
    ------
    ReceiverUnavailable
        The receiver took nothing for a minute; the messages that it took before are written down.
    JobFailed
        It rejected too many messages; none of the rest was sent.
    """
    sending = sending_of(storage, manifest.name)
    for batch in _batches(storage, manifest, sending.after, max(1, min(_MOST_LINES, int(rate)))):
        started = time.monotonic()
        _note(sending, batch, _answers(receiver, [_line(manifest.name, row) for row in batch]))
        storage.write(_path(manifest.name), msgspec.json.encode(sending))
        tell(sending)
        if len(sending.rejected) > _MOST_REJECTED:
            raise JobFailed(
                f"the receiver rejected {len(sending.rejected)} messages; what follows {sending.after} was not sent",
                hint=f"the first said: {next(iter(sending.rejected.values()))}",
            )
        time.sleep(max(0.0, started + len(batch) / rate - time.monotonic()))
    return sending


def _note(sending: ReplayProgress, batch: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
    for row, answer in zip(batch, answers, strict=True):
        if answer["status"] == "rejected":
            sending.rejected[row["id"]] = str(answer["error"].get("detail", ""))
        else:
            sending.accepted += 1
    sending.after = batch[-1]["id"]


def _answers(receiver: Receiver, lines: list[bytes]) -> list[dict[str, Any]]:
    """Return an answer for each line; a batch that could not be taken as a whole is sent again as a whole."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            answer = receiver.call("POST", "/v1/messages", content=b"\n".join(lines), headers=_NDJSON)
            results: list[dict[str, Any]] = answer["results"]
            held = [each for each in results if _is_held(each)]
            if not held:
                return results
            problem = str(held[0]["error"].get("detail", ""))
        except ReceiverUnavailable as error:
            problem = str(error)
        if time.monotonic() > until:
            raise ReceiverUnavailable(
                f"the receiver accepted no message for {PATIENCE:g} s: {problem}; the accepted ones are recorded",
                hint="run the same command again when it is available: it continues where it stopped",
            )
        time.sleep(_PAUSE)


def _is_held(result: dict[str, Any]) -> bool:
    """Whether a line was refused only for now, by 429 or a failure of the receiver."""
    status = result["error"].get("status", 0) if result["status"] == "rejected" else 0
    return bool(status == _TOO_MANY or status >= _ITS_FAULT)


def _batches(storage: Storage, manifest: Manifest, after: str, most: int) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    weight = 0
    for file in manifest.tables[REPLAYS.name]:
        for row in storage.rows(file.path):
            if row["id"] <= after:
                continue
            if batch and (len(batch) >= most or weight + len(row["body"]) > _MOST_BYTES):
                yield batch
                batch, weight = [], 0
            batch.append(row)
            weight += len(row["body"])
    if batch:
        yield batch


def _line(name: str, row: dict[str, Any]) -> bytes:
    line = {field: row[field] for field in _SAME if row[field]}
    line["id"] = row["new_id"]
    line["replay"] = str(Replay(name, row["id"]))
    line["headers"] = dict(row["headers"])
    line["body_base64"] = base64.b64encode(row["body"]).decode()
    for field in ("sent_at", "deliver_at"):
        # Selections that an earlier release froze have no ``deliver_at``.
        if row.get(field) is not None:
            line[field] = format_time(_milliseconds(row[field]))
    return msgspec.json.encode(line)


def _milliseconds(moment: dt.datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (aware - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(milliseconds=1)


def _path(name: str) -> str:
    return f"_replays/{name}.json"
