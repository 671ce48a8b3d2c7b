"""``bus resend --pause``, ``--resume``, ``--cancel`` and ``--rerun``: control of existing jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import typer

from bus.cli.api import Api
from bus.cli.output import print_json


@dataclass(frozen=True)
class JobAction:
    """An action on an existing job; at most one."""

    pause: Annotated[str, typer.Option(metavar="JOB", help="Pause a job.")] = ""
    resume: Annotated[str, typer.Option(metavar="JOB", help="Resume a job; with --rate, at this rate.")] = ""
    cancel: Annotated[str, typer.Option(metavar="JOB", help="Cancel a resend or a discard.")] = ""
    rerun: Annotated[
        str,
        typer.Option(
            metavar="JOB", help="Resend the failed deliveries of a resend, or the discarded ones of a discard."
        ),
    ] = ""

    @property
    def jobs(self) -> list[str]:
        """The jobs that are named."""
        return [job for job in (self.pause, self.resume, self.cancel, self.rerun) if job]


def steer(api: Api, wanted: JobAction, rate: float | None, reason: str, *, reorder: bool, as_json: bool) -> str:
    """Execute the action and print the state of the job; return the id of a job to follow, empty for none."""
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
