"""The pipeline that stays: how fresh its rollups are, what its jobs found, when they run next; and the last proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui.events import GenericEventArguments

from admin.models.responses.pipeline import PipelineView, ProofReportView
from admin.pages.frame import heading, page
from admin.pages.parts import proof as proofs
from admin.pages.parts.buttons import to
from admin.pages.parts.figures import Figures, count
from admin.pages.parts.following import following
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import done, empty, note
from admin.pages.parts.pipeline import JOBS, did, lasted, verdict
from admin.pages.parts.sections import Section
from admin.pages.parts.tables import Cell, Column, Row, moment, number, text
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import waited
from admin.pages.viewer import Viewer
from bus.domain.pipelines import Job, Pipeline, ProofReport, Run, RunRequest, ScheduledJob, StreamState
from bus.domain.times import parse_time
from bus.localized_text import N_
from bus.security.keys import Action

_COMMAND: Final = "bus pipeline serve"
_SHOWN: Final = 30


@page("/pipeline", N_("Pipeline"))
async def pipeline(viewer: Viewer) -> None:
    """Show how the pipeline is, its jobs and their runs, and the verdict of the last proof; update them regularly."""
    with heading(viewer.t("Pipeline")):
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    shown = _PageParts(viewer)
    await shown.look()
    with tools:
        following(viewer, shown.look)


@page("/pipeline/proof", N_("Last proof"))
async def proof(viewer: Viewer) -> None:
    """Show the last proof with all that it rests on."""
    t = viewer.t
    with heading(t("Last proof")):
        tag("span", "pier-spacer")
        link(t("Pipeline"), "/admin/pipeline")
    found = (await viewer.api.get("/pipeline/proof", ProofReportView)).proof
    if found is None:
        empty(t("There is no proof yet"), t("Run one on the page Pipeline, or wait for its time."))
        return
    proofs.head(viewer, found)
    proofs.body(viewer, found)


class _PageParts:
    """The parts of the page."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._silent = LivePart(self._tell_silence)
        self._stopped = LivePart(self._tell_stop)
        self._figures = Figures()
        self._proof = LivePart(self._show_proof)
        self._jobs = self._jobs_section()
        self._runs = self._runs_section()

    async def look(self) -> None:
        """Ask how it is now."""
        view = await self._viewer.api.get("/pipeline", PipelineView)
        found = (await self._viewer.api.get("/pipeline/proof", ProofReportView)).proof
        self._silent.update((view.pipeline is None, view.heard, view.told_at))
        self._proof.update(found)
        if view.pipeline is not None:
            self._show(view.pipeline, view.wishes)

    def _show(self, found: Pipeline, wishes: Sequence[RunRequest]) -> None:
        t = self._viewer.t
        self._stopped.update((found.stream.error, found.stream.hint))
        self._figures.update(_stream(self._viewer, found.stream))
        wanted = {wish.job for wish in wishes}
        last = {run.job: run for run in reversed(found.runs)}
        rows = [self._job(each, last.get(each.job), is_wanted=each.job in wanted) for each in found.jobs]
        self._jobs.show(rows, said=t("The clock is that of {timezone}.", timezone=found.timezone))
        nothing = (t("Nothing ran yet"), t("Jobs run at their times, or when somebody wants them."))
        self._runs.show([self._run(each) for each in found.runs[:_SHOWN]], nothing=nothing)

    def _jobs_section(self) -> Section:
        t = self._viewer.t
        columns = [
            Column("job", t("Job")),
            Column("verdict", t("Last run")),
            Column("at", t("Begun")),
            Column("next", t("Next run")),
            Column("cron", t("Clock")),
        ]
        if self._viewer.may(Action.RESEND):
            columns.append(Column("deeds", t("Run it"), shows="deeds"))
        return Section(self._viewer, t("Jobs"), columns, self._decide)

    def _runs_section(self) -> Section:
        t = self._viewer.t
        columns = [
            Column("number", t("Run"), is_number=True),
            Column("job", t("Job")),
            Column("verdict", t("State")),
            Column("at", t("Begun")),
            Column("took", t("Took"), is_number=True),
            Column("did", t("What it did")),
            Column("by", t("By")),
        ]
        return Section(self._viewer, t("Runs"), columns)

    def _job(self, each: ScheduledJob, last: Run | None, *, is_wanted: bool) -> Row:
        t = self._viewer.t
        waits = each.waits or is_wanted
        return {
            "key": each.job,
            "job": text(t(JOBS[each.job]), title=each.job),
            "verdict": verdict(self._viewer, last) if last is not None else text("–"),
            "at": moment(self._viewer, last.began_at) if last is not None else text("–"),
            "next": text(t("waits for its turn")) if waits else moment(self._viewer, each.next_at),
            "cron": text(each.cron or t("only when wanted")),
            "deeds": None if waits or not self._may_run(each.job) else self._deeds(each.job),
        }

    def _may_run(self, job: Job) -> bool:
        return self._viewer.may(Action.CONFIGURE if job is Job.ARCHIVE else Action.RESEND)

    def _deeds(self, job: Job) -> Cell:
        t = self._viewer.t
        said = t("Run now: {job}", job=t(JOBS[job]))
        return {"deeds": [{"name": "run", "text": t("Run now"), "said": said}]}

    async def _decide(self, event: GenericEventArguments) -> None:
        _, job = event.args
        await self._viewer.api.post("/pipeline/runs", {"job": job})
        done(self._viewer.t("It runs within seconds, or when what runs now has ended."))
        await self.look()

    def _run(self, run: Run) -> Row:
        t = self._viewer.t
        return {
            "key": str(run.number),
            "number": number(count(run.number)),
            "job": text(t(JOBS[run.job]), title=run.job),
            "verdict": verdict(self._viewer, run),
            "at": moment(self._viewer, run.began_at),
            "took": number(lasted(run)),
            "did": text(did(self._viewer, run), cut=True),
            "by": text(run.by or t("the clock")),
        }

    def _tell_silence(self, told: tuple[bool, bool, str | None]) -> None:
        t = self._viewer.t
        is_unknown, is_heard, at = told
        if is_unknown:
            start = t("Start one beside this bus: {command}", command=_COMMAND)
            empty(t("No pipeline tells of itself"), start)
        elif not is_heard:
            title = t("Nothing was heard of the pipeline since {time}", time=self._viewer.near(at))
            said = t(
                "What it committed stays, and it goes on where it was. Start it again: {command}", command=_COMMAND
            )
            note(title, said, tone="warn")

    def _tell_stop(self, why: tuple[str, str]) -> None:
        error, hint = why
        if error:
            with note(self._viewer.t("The rollup stopped, and is started again by itself"), error, tone="bad"):
                tag("p", "pier-quiet", hint)

    def _show_proof(self, found: ProofReport | None) -> None:
        t = self._viewer.t
        if found is None:
            return
        with tag("section", "pier-card", aria_label=t("Last proof")):
            tag("h2", "", t("Last proof"))
            proofs.head(self._viewer, found)
            to(t("See what it rests on"), "/admin/pipeline/proof", icon="fact_check")


def _stream(viewer: Viewer, stream: StreamState) -> list[tuple[str, str, str]]:
    t = viewer.t
    age = (viewer.now() - parse_time(stream.committed_at)) / 1000 if stream.committed_at else None
    shown = [
        (t("Freshness"), waited(stream.freshness_p95), t("p95 of the last batch")),
        (t("Rollups published"), waited(age), t("ago") if age is not None else ""),
        (t("Events"), count(stream.events), t("since its start")),
        (t("Batches"), count(stream.batches), ""),
    ]
    return [*shown, (t("Lag"), count(stream.lag), t("records of Kafka"))] if stream.lag else shown
