"""A node's agent by HTTP, beside the Python SDK from threads: each message durable where it was sent."""

from __future__ import annotations

from bench.report import Row
from bench.run import Run
from bench.sending import Sending
from bench.systems import TOPIC, Pier
from tests.harness.agent_process import AgentProcess
from tests.harness.process import Child, module

SECTION = "agent"
CALLERS = 64
LINES = 100
WARM_UP = 1_000
SINGLE_TARGET, BATCH_TARGET = 0.8, 2.0


def measure(run: Run) -> list[Row]:
    """Return the rows of single messages and of batches, while all is sent on to a bus, and while it is away."""
    rows = []
    for away in (False, True):
        found: dict[str, list[tuple[float, float]]] = {"sdk": [], "single": [], "batch": []}
        for round_ in range(run.size.rounds):
            run.step(f"the agent{', the bus away' if away else ''}, round {round_ + 1}")
            found["sdk"].append(_sdk(run, run.size.messages, away=away))
            found["single"].append(_agent(run, run.size.messages, batch=1, away=away))
            found["batch"].append(_agent(run, run.size.messages * 4, batch=LINES, away=away))
        rows += _rows(found, ", the bus away" if away else "")
    return rows


def _rows(found: dict[str, list[tuple[float, float]]], when: str) -> list[Row]:
    rates = {name: [rate for rate, _ in figures] for name, figures in found.items()}
    waits = {name: [wait for _, wait in figures] for name, figures in found.items()}
    beside = f"Bus.send, {CALLERS} threads"
    return [
        Row(SECTION, f"single POST{when}", rates["single"], "/s", beside, rates["sdk"], SINGLE_TARGET),
        Row(SECTION, f"single POST, p99{when}", waits["single"], "ms", beside, waits["sdk"], lower=True),
        Row(SECTION, f"ndjson of {LINES} lines{when}", rates["batch"], "/s", beside, rates["sdk"], BATCH_TARGET),
    ]


def _sdk(run: Run, count: int, *, away: bool) -> tuple[float, float]:
    with run.place() as folder, run.system(Pier.name, ["http://127.0.0.1:9/paused"], paused=True) as system:
        url = _receiver(system, away=away)
        argv = module(
            "bench.threads", "--url", url, "--spool", folder / "spool", "--count", count, "--threads", CALLERS
        )
        with Child(argv, log=folder / "log") as child:
            return _figures(child.ready_line(300), count)


def _agent(run: Run, count: int, *, batch: int, away: bool) -> tuple[float, float]:
    with (
        run.place() as folder,
        run.system(Pier.name, ["http://127.0.0.1:9/paused"], paused=True) as system,
        AgentProcess(folder, _receiver(system, away=away)) as agent,
    ):
        path = "/v1/messages" if batch > 1 else f"/v1/messages/{TOPIC}"
        load = {"connections": CALLERS, "batch": batch, "destination": TOPIC if batch > 1 else ""}
        Sending(agent.url + path, WARM_UP, **load).result()
        return _figures(Sending(agent.url + path, count, **load).result().summary, count)


def _receiver(system: object, *, away: bool) -> str:
    assert isinstance(system, Pier)
    return "http://127.0.0.1:9" if away else system.bus.url


def _figures(summary: dict[str, float], count: int) -> tuple[float, float]:
    if summary["accepted"] != count:
        raise RuntimeError(f"{count - summary['accepted']:.0f} of {count} messages were not accepted")
    return summary["per_second"], summary["p99_ms"]
