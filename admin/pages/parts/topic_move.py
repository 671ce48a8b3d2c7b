"""The migration of an NSQ topic to another cluster: a diagram of its steps, the missing evidence, and buttons."""

from __future__ import annotations

from typing import Final

import msgspec
from nicegui import ui

from admin.models.responses.lookup import ClusterSeenView, MigrationView
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.buttons import button
from admin.pages.parts.figures import count, pairs
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import done, note
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, Row, number, table, text
from admin.pages.parts.tags import tag
from admin.pages.parts.times import moment, waited
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_STEPS: Final = {
    "prepare": N_("Prepare the target"),
    "consumers-on-both": N_("Consumers on both"),
    "producers-on-target": N_("Producers on the target"),
    "producers-stopped": N_("Producers stopped"),
    "draining-source": N_("Source runs dry"),
    "expanding-source": N_("Source gets partitions"),
    "producers-stopped-to-return": N_("Producers stopped to return"),
    "draining-target": N_("Target runs dry"),
    "done": N_("Done"),
    "rollback-producers-on-source": N_("Back: producers on the source"),
    "rollback-producers-stopped": N_("Back: producers stopped"),
    "rollback-draining-target": N_("Back: target runs dry"),
    "canceled": N_("Rolled back"),
}
_KINDS: Final = {"unordered": N_("unordered"), "ordered": N_("ordered"), "expansion": N_("expansion")}


class TopicMove:
    """One migration on the page, with buttons to steer it."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._may_steer = viewer.may(Action.PAUSE)
        with tag("section", "pier-card"):
            self._head = LivePart(self._draw_head)
            self._now = LivePart(self._draw_now)
            self._asking = tag("div")  # stays while the rest is drawn anew

    def show(self, found: MigrationView) -> None:
        """Show it as it is now."""
        self._head.update(
            msgspec.structs.replace(found, evidence=None, waits=[], waits_text=[], producers_stopped_ms=0)
        )
        self._now.update(found)

    def _draw_head(self, found: MigrationView) -> None:
        t = self._viewer.t
        with tag("div", "pier-row-of"):
            tag("h2", "pier-mono", found.topic)
            tag("span", "pier-quiet pier-mono", f"{found.source} → {found.target}")
            chip(t(_KINDS.get(found.kind, found.kind)))
            self._state(found)
            tag("span", "pier-spacer")
            if self._may_steer and not found.ended:
                self._tools(found)
        self._steps(found)

    def _draw_now(self, found: MigrationView) -> None:
        viewer, t = self._viewer, self._viewer.t
        if found.waits:
            self._waits(found)
        if found.trouble:
            note(t("Something could not be made on the target"), found.trouble, tone="bad")
        pairs(self._facts(found))
        if found.evidence is not None and not found.ended:
            sides = (found.evidence.source, found.evidence.target)
            table(_columns(viewer), [_row(viewer, side) for side in sides], label=t("What is seen of both clusters"))

    def _state(self, found: MigrationView) -> None:
        t = self._viewer.t
        if found.ended:
            tone = "good" if found.step == "done" else ""
            chip(t(_STEPS.get(found.step, found.step)), tone, "check")
        elif found.paused:
            chip(t("paused"), "warn", "pause")
        elif found.producers_stopped:
            chip(t("producers wait"), "warn", "hourglass_empty")

    def _steps(self, found: MigrationView) -> None:
        viewer, t = self._viewer, self._viewer.t
        taken = {one.step: one for one in found.history}
        left = [step for step in found.steps if step not in taken]
        is_back = found.step not in found.steps
        shown = [*taken, *([found.next] if is_back and found.next else left)]
        with tag("ol", "pier-chain pier-moves", aria_label=t("Steps of the migration")):
            for step in shown:
                is_now = step == found.step
                current = "step" if is_now else None
                with tag("li", f"pier-segment{' pier-segment-now' if is_now else ''}", aria_current=current):
                    tag("strong", "" if is_now or step in taken else "pier-quiet", t(_STEPS.get(step, step)))
                    if step in taken:
                        moment(viewer, taken[step].at)
                    if step in taken and taken[step].by:
                        tag("span", "pier-quiet", t("by {name}", name=taken[step].by))

    def _waits(self, found: MigrationView) -> None:
        viewer = self._viewer
        tag("p", "", viewer.t("It waits until:"))
        with tag("ul", "pier-list"):
            for said, sentence in zip(found.waits, found.waits_text, strict=True):
                tag("li", "", viewer.say(sentence or said))

    def _facts(self, found: MigrationView) -> list[tuple[str, object]]:
        t = self._viewer.t
        facts: list[tuple[str, object]] = [
            (t("Producers are sent to"), ", ".join(found.produce) or t("nobody: they wait")),
            (t("Consumers read"), ", ".join(found.consume)),
        ]
        if found.producers_stopped_ms:
            facts.append((t("Producers stood still for"), waited(found.producers_stopped_ms / 1000)))
        if found.ended:
            home = t("yes") if found.in_file else t("not yet: write it there, and this route is no longer kept here")
            facts.append((t("In the file of every proxy"), home))
        return facts

    def _tools(self, found: MigrationView) -> None:
        t = self._viewer.t
        if found.paused:
            button(t("Resume"), lambda: self._steer(found, "resume"), icon="play_arrow")
        else:
            button(t("Pause"), lambda: self._steer(found, "pause"), icon="pause")
        if found.can_roll_back:
            button(t("Roll back…"), lambda: self._ask_back(found), icon="undo")
        if found.next and not found.paused:
            button(t("Go on without evidence…"), lambda: self._ask_on(found), icon="skip_next")

    async def _steer(self, found: MigrationView, deed: str, body: dict[str, object] | None = None) -> None:
        answer = await self._viewer.api.post(f"/lookup/migrations/{found.id}/{deed}", body)
        self.show(answer.read(MigrationView))
        done(self._viewer.t("It is done, and in the audit log."))

    def _ask_back(self, found: MigrationView) -> None:
        t = self._viewer.t
        said = t("Producers go back to {cluster}; nothing is lost, and order is kept.", cluster=found.source)
        self._ask(found, t("Roll {topic} back?", topic=found.topic), said, t("Roll back"), "rollback", None)

    def _ask_on(self, found: MigrationView) -> None:
        t = self._viewer.t
        title = t("Go on with {topic} without evidence?", topic=found.topic)
        said = t("What may happen: {risk}.", risk=t(found.risk))
        self._ask(found, title, said, t("Go on all the same"), "advance", {"step": found.step})

    def _ask(
        self, found: MigrationView, title: str, said: str, deed: str, path: str, body: dict[str, object] | None
    ) -> None:
        viewer, t = self._viewer, self._viewer.t
        with self._asking, dialog(title) as asking:
            tag("p", "", said)
            right = {t("Type {text} to go on", text=found.topic): lambda typed: (typed or "").strip() == found.topic}
            name = ui.input(t("Type {text} to go on", text=found.topic), validation=right).props("outlined dense")
            name.without_auto_validation()

            async def act() -> bool:
                if not name.validate():
                    return False
                await self._steer(found, path, body)
                return True

            answers(viewer, asking, deed, act)


def _columns(viewer: Viewer) -> list[Column]:
    t = viewer.t
    return [
        Column("cluster", t("Cluster")),
        Column("producers", t("Producers"), is_number=True),
        Column("consumers", t("Consumers"), is_number=True),
        Column("depth", t("Waiting"), is_number=True),
        Column("in_flight", t("In flight"), is_number=True),
        Column("deferred", t("Held back"), is_number=True),
        Column("unwritten", t("Nobody wrote for"), is_number=True),
        Column("unknown", t("Not known")),
    ]


def _row(viewer: Viewer, side: ClusterSeenView) -> Row:
    there = side.exists
    return {
        "key": side.cluster,
        "cluster": text(side.cluster, mono=True),
        "producers": number(count(side.producers) if there else "–"),
        "consumers": number(count(side.consumers) if there else "–"),
        "depth": number(count(side.depth) if there else "–"),
        "in_flight": number(count(side.in_flight) if there else "–"),
        "deferred": number(count(side.deferred) if there else "–"),
        "unwritten": number(waited(side.unwritten_for)),
        "unknown": text(
            "; ".join(side.unknown) if there or side.unknown else viewer.t("it has no such topic"), cut=True
        ),
    }
