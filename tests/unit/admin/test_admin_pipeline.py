"""A pipeline that stays, through the API: what it tells, what people want of it, its last proof, and the bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from bus.domain.pipelines import HEARD_MS, MOST_FOUND, MOST_RUNS, Job, Verdict
from tests.unit.admin.admin_world import World, problem

AT = "2026-11-21T11:00:00.000Z"
RUN = {"number": 7, "job": "reconcile", "began_at": AT, "ended_at": AT, "verdict": "missing", "figures": {"missing": 2}}
PROOF = {
    "run": 7,
    "verdict": "missing",
    "checked": AT,
    "missing": 1,
    "hops": [{"hop": "deliver", "buckets": 3, "expected": 9, "states": {"final": 3}, "verdicts": {"missing": 1}}],
    "found": [
        {"id": "m-1", "destination": "orders", "subscription": "shop", "finding": "missing", "state": "final"},
    ],
    "gaps": [{"emitter": "e-1", "node": "n", "until": AT, "blocks": 2, "events": 0}],
    "bars": [{"start": AT, "states": {"final": 3}, "missing": 1}],
}


def state(*runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    jobs = [{"job": "reconcile", "cron": "*/15 * * * *", "next_at": AT}, {"job": "archive"}]
    told = {"started_at": AT, "lake": "/lake", "timezone": "UTC", "stream": {}, "jobs": jobs, "runs": list(runs)}
    return told | changes


@pytest.fixture
async def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        yield client


async def test_what_a_pipeline_tells_is_shown_until_it_is_not_heard_of(world: World, client: httpx.AsyncClient) -> None:
    nothing = (await client.get("/pipeline")).json()
    assert nothing == {"told_at": None, "by": "", "heard": False, "pipeline": None, "wishes": []}
    for verdict in Verdict:
        told = state({**RUN, "verdict": verdict})
        assert (await client.put("/pipeline", json=told)).json() == {"wishes": []}
        shown = (await client.get("/pipeline")).json()
        assert shown["heard"]
        assert [run["verdict"] for run in shown["pipeline"]["runs"]] == [verdict]
        assert [job["job"] for job in shown["pipeline"]["jobs"]] == ["reconcile", "archive"]
    await world.clock.advance(HEARD_MS / 1000 + 1)
    assert not (await client.get("/pipeline")).json()["heard"]


async def test_a_run_is_wanted_once_until_the_pipeline_has_taken_it(client: httpx.AsyncClient) -> None:
    await client.put("/pipeline", json=state())
    wanted = [(await client.post("/pipeline/runs", json={"job": "reconcile"})).json()["wishes"] for _ in range(2)]
    assert wanted[0] == wanted[1]
    (wish,) = wanted[0]
    assert (await client.put("/pipeline", json=state(RUN))).json()["wishes"] == [wish]
    waiting = {"job": "reconcile", "waits": True, "wish": wish["id"]}
    assert (await client.put("/pipeline", json=state(jobs=[waiting]))).json()["wishes"] == []
    await client.post("/pipeline/runs", json={"job": "reconcile"})
    (again,) = (await client.get("/pipeline")).json()["wishes"]
    assert again["id"] != wish["id"]
    assert (await client.put("/pipeline", json=state({**RUN, "wish": again["id"]}))).json()["wishes"] == []


async def test_what_nobody_would_run_is_refused(world: World, client: httpx.AsyncClient) -> None:
    answer = await client.post("/pipeline/runs", json={"job": "reconcile"})
    assert "bus pipeline serve" in problem(answer, 409)["hint"]
    await client.put("/pipeline", json=state())
    problem(await client.post("/pipeline/runs", json={"job": "judge"}), 404)
    problem(await client.post("/pipeline/runs", json={"job": "sweep"}), 422, "job")
    await world.clock.advance(HEARD_MS / 1000 + 1)
    problem(await client.post("/pipeline/runs", json={"job": "reconcile"}), 409)
    assert (await client.get("/pipeline")).json()["wishes"] == []


async def test_the_last_proof_is_shown_as_it_was_told(client: httpx.AsyncClient) -> None:
    assert (await client.get("/pipeline/proof")).json() == {"proof": None}
    assert (await client.put("/pipeline/proof", json=PROOF)).status_code == 204
    shown = (await client.get("/pipeline/proof")).json()["proof"]
    assert shown["found"][0]["id"] == "m-1"
    assert {name: shown[name] for name in ("run", "verdict", "checked", "missing")} == {
        name: PROOF[name] for name in ("run", "verdict", "checked", "missing")
    }
    assert shown["gaps"][0]["after"] is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pipeline", state(*[RUN] * (MOST_RUNS + 1))),
        ("/pipeline", state(jobs=[{"job": "judge"}] * (len(Job) + 1))),
        ("/pipeline", state({**RUN, "number": 0})),
        ("/pipeline", state({**RUN, "error": "x" * 2001})),
        ("/pipeline", state({**RUN, "figures": {f"n_{'x' * n}": n for n in range(21)}})),
        ("/pipeline", state({**RUN, "began_at": "yesterday"})),
        ("/pipeline", state(stream={"events": -1})),
        ("/pipeline/proof", {**PROOF, "found": PROOF["found"] * (2 * MOST_FOUND + 1)}),  # type: ignore[operator]
        ("/pipeline/proof", {**PROOF, "hops": [{"hop": "carry"}]}),
        ("/pipeline/proof", {**PROOF, "verdict": "well"}),
    ],
)
async def test_what_a_stranger_tells_is_bounded(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    problem(await client.put(path, json=body), 422)
    assert (await client.get("/pipeline")).json()["pipeline"] is None
    assert (await client.get("/pipeline/proof")).json()["proof"] is None
