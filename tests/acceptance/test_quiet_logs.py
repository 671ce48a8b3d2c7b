"""No part of a message is in the log, whatever becomes of the message, also where everything is logged."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.process import free_port
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

MARK = "4111-secret-1111"
KEY = "k" * 32
NDJSON = {"content-type": "application/x-ndjson"}
BODIES = [
    f'{{"card": "{MARK}"}}'.encode(),
    f'{{"card": "{MARK}",'.encode(),
    f"{MARK}\xff".encode("latin-1"),
    f'{{"{MARK}": {"[" * 3000}'.encode(),
]
LINES = [
    f'{{"destination":"d","body":{{"card":"{MARK}"}}}}',
    f'{{"destination":"d","body":{{"card":"{MARK}"',
    f'{{"destination":"none","body":"{MARK}"}}',
    f'{{"destination":"d","body_base64":"{MARK}"}}',
    f'{{"destination":"d","more":"{MARK}","body":1}}',
    f'"{MARK}"',
]


@pytest.fixture(params=["true", "false"], ids=["json", "text"])
def bus(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BusProcess]:
    env = {"BUS_LOG_LEVEL": "debug", "BUS_LOG_JSON": request.param, "BUS_SECRET_KEY": KEY}
    with BusProcess(tmp_path / "data", env=env) as process:
        yield process


def test_bodies_of_all_fates_stay_out_of_the_log(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    admin = bus.admin
    secret = "whsec_" + "QUJD" * 8
    admin.destination("d", mask=["body.card"], max_bytes=5000)
    admin.subscription("d", "well", subscriber.url("/well"), secret=secret)
    admin.subscription("d", "broken", subscriber.url("/broken"), retry=["100ms"], retry_max_attempts=2)
    admin.subscription("d", "gone", f"http://127.0.0.1:{free_port()}/{MARK[:4]}", retry=["100ms"], retry_max_attempts=2)
    admin.subscription("d", "picky", subscriber.url("/picky"), filter="abs(body.card) > `1`")
    subscriber.configure("/broken=fail:1.0,status:500")
    sent = [admin.send("d", body, bus_header_note=MARK) for body in BODIES]
    ids = [answer.json()["id"] for answer in sent]
    assert admin.send("d", BODIES[0] * 400).status_code == 413
    assert admin.send("none", BODIES[0]).status_code == 404
    assert admin.send("d", BODIES[0], bus_message_id=MARK).status_code == 422
    batch = admin.call("POST", "/v1/messages", content="\n".join(LINES), headers=NDJSON).json()["results"]
    assert [result["status"] for result in batch][:2] == ["accepted", "rejected"]
    wait_until(lambda: subscriber.count("/well") >= 5, within=60, what="the good subscriber has all")
    wait_until(lambda: subscriber.count("/broken") >= 10, within=60, what="the broken one was tried again")
    for path in (f"/messages/{ids[0]}/body", f"/messages/{ids[0]}", f"/messages?q={MARK}", f"/messages?biz_id={MARK}"):
        assert admin.call("GET", f"/api/v1{path}").status_code == 200
    assert admin.call("GET", f"/api/v1/messages/{ids[2]}/body").status_code == 403
    assert admin.call("POST", f"/api/v1/messages/{ids[0]}/resend").status_code in (202, 409)
    assert admin.call("PUT", "/api/v1/destinations/d", content=BODIES[1]).status_code in (400, 422)
    assert admin.call("GET", f"/api/v1/{quote(MARK)}").status_code == 404
    with socket.create_connection(("127.0.0.1", bus.port), timeout=30) as raw:
        raw.sendall(b"POST /v1/messages/d HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n" + BODIES[0])
    with socket.create_connection(("127.0.0.1", bus.port), timeout=30) as raw:
        raw.sendall(b"NONSENSE " + BODIES[0] + b"\r\n\r\n")
        assert b" 400 " in raw.recv(4096)
    assert bus.stop() == 0
    log = bus.child.log.read_text()
    assert "the filter fails" in log
    assert [line for line in log.splitlines() if MARK in line] == []
    assert secret not in log
    assert secret.removeprefix("whsec_") not in log
    assert KEY not in log


def test_a_setting_that_is_refused_does_not_tell_the_secrets_beside_it(tmp_path: Path) -> None:
    ran = run_bus("up", "--data", tmp_path / "data", env={"BUS_SECRET_KEY": MARK, "BUS_PORT": "no"})
    assert ran.returncode == 1
    assert MARK not in ran.stderr + ran.stdout
