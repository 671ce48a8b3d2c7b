"""``bus resend --pause``, ``--resume``, ``--cancel`` and ``--rerun``: jobs that are there already."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

import typer

from bus.cli.api import Api
from bus.cli.output import print_json


class Steering(NamedTuple):
    """What is wanted of which job; one of them at most."""

    pause: str
    resume: str
    cancel: str
    rerun: str


def steer(api: Api, wanted: Steering, rate: float | None, reason: str, *, reorder: bool, as_json: bool) -> str:
    """Do it and say how the job stands; return the job to follow, empty when there is none."""
    if wanted.rerun:
        body = {"rate": rate, "reason": reason} | ({"reorder": True} if reorder else {})
        return str(api.call("POST", f"{job_path(wanted.rerun)}/rerun", body=body)["id"])
    if wanted.pause:
        job = api.call("POST", f"{job_path(wanted.pause)}/pause")
    elif wanted.cancel:
        job = api.call("DELETE", job_path(wanted.cancel))
    else:
        if rate is not None:
            api.call("PATCH", job_path(wanted.resume), body={"rate": rate})
        job = api.call("POST", f"{job_path(wanted.resume)}/resume")
    _show(job, as_json=as_json)
    return ""


def job_path(job_id: str) -> str:
    """Return the path of a job."""
    return f"/api/v1/resends/{quote(job_id, safe='')}"


def _show(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        counts = ", ".join(f"{count} {name}" for name, count in job["counts"].items())
        typer.echo(f"{job['id']} is {job['state']}: {counts}")
