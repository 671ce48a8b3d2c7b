"""The chain of a strictly ordered destination as a picture, with what blocks, and what only a person decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from nicegui import ui

from admin.models.responses.strict_ordering import (
    AbandonedView,
    CostView,
    GroupView,
    HolderView,
    ReleasedProducerView,
    SegmentView,
    StrictOrderView,
)
from admin.pages.calls import ChangeResponse
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.buttons import button
from admin.pages.parts.figures import count, pairs
from admin.pages.parts.following import EVERY, patient
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import done, note
from admin.pages.parts.states import chip
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.security.keys import Action

_LONGEST_REASON: Final = 1000


class _Decision(NamedTuple):
    """A decision that a dialog asks for.

    Attributes
    ----------
    deed
        The label of the button.
    typed
        The text that must be typed first.
    path, body
        The request that takes the decision, but for the reason.
    """

    title: str
    said: str
    deed: str
    typed: str
    path: str
    body: Mapping[str, object]


class ChainPicture:
    """The section of a destination's page: segments in a row, the oldest first, as they are now."""

    def __init__(self, viewer: Viewer, code: str) -> None:
        self._viewer = viewer
        self._code = code
        self._path = f"/destinations/{code}/ordering"
        self._may_decide = viewer.may(Action.CONFIGURE, code)
        with tag("section", "pier-card", aria_label=viewer.t("Strict order")):
            tag("h2", "", viewer.t("Strict order"))
            self._picture = LivePart(self._draw)
            self._asking = tag("div")  # stays while the picture is drawn anew

    async def follow(self) -> None:
        """Show the chain now, and from then on."""
        await self._look()
        ui.timer(EVERY, patient(self._viewer, self._look), immediate=False)

    async def _look(self) -> None:
        self._picture.update(await self._viewer.api.get(self._path, StrictOrderView))

    def _draw(self, found: StrictOrderView) -> None:
        viewer, t = self._viewer, self._viewer.t
        for one in found.blocked:
            note(viewer.say(one.what_text or one.what), viewer.say(one.next_step_text or one.next_step), tone="bad")
        groups = {group.name: group for group in found.groups}
        if found.known:
            self._segments(found.consume, groups)
            holders = [(t("Sends"), self._holder(found.sender)), (t("Reads"), self._holder(found.reader))]
            if found.producer is not None:
                holders.append((t("Its only producer"), self._holder(found.producer)))
            pairs([*holders, (t("May take messages"), ", ".join(found.send) or t("none"))])
            if found.producer is not None and self._may_decide:
                self._release_button()
        self._others([group for name, group in groups.items() if name not in {one.group for one in found.consume}])

    def _segments(self, segments: list[SegmentView], groups: Mapping[str, GroupView]) -> None:
        t = self._viewer.t
        if not segments:
            tag("p", "pier-quiet", t("Nothing is to be read: no group of brokers took a message yet."))
            return
        tag(
            "p", "pier-quiet", t("Consumers read from left to right; a group is left once all have read it to its end.")
        )
        with tag("ol", "pier-chain", aria_label=t("What is to be read, oldest first")):
            for segment in segments:
                self._segment(segment, groups[segment.group])

    def _segment(self, segment: SegmentView, group: GroupView) -> None:
        viewer, t = self._viewer, self._viewer.t
        is_dead = group.answers is not True or segment.lost
        with tag("li", f"pier-segment{' pier-segment-dead' if is_dead else ''}", title=f"#{segment.epoch}"):
            with tag("div", "pier-row-of"):
                tag("strong", "pier-mono", segment.group)
                if segment.current:
                    chip(t("takes messages"), "good", "login")
                if segment.lost:
                    chip(t("lost its disks"), "bad", "error")
                elif is_dead:
                    chip(t("not known here") if group.answers is None else t("does not answer"), "bad", "error")
            for one in segment.waiting:
                self._line(one.subscription, self._waiting(one.waiting), "" if one.waiting == 0 else "warn")
            for name in segment.drained:
                self._line(name, t("read to its end"), "good")
            if group.trouble:
                tag("p", "pier-bad", viewer.say(group.trouble_text or group.trouble))
            if self._may_decide and not segment.current:
                self._abandon_button(group, segment)

    def _waiting(self, waiting: int | None) -> str:
        t = self._viewer.t
        return t("nobody can say what waits") if waiting is None else t("{count} waiting", count=count(waiting))

    def _line(self, name: str, said: str, tone: str) -> None:
        with tag("div", "pier-row-of pier-segment-line"):
            tag("span", "pier-mono", name)
            tag("span", "pier-spacer")
            tag("span", f"pier-{tone}" if tone else "pier-quiet", said)

    def _holder(self, holder: HolderView | None) -> str:
        t = self._viewer.t
        if holder is None:
            return t("nobody")
        name = " · ".join(part for part in (holder.node or holder.owner, holder.url) if part)
        return t("{name}: is gone", name=name) if holder.alive is False else name

    def _others(self, groups: list[GroupView]) -> None:
        """Show the groups that have nothing to be read."""
        viewer, t = self._viewer, self._viewer.t
        if not groups:
            return
        with tag("div", "pier-row-of q-mt-sm"):
            tag("span", "pier-quiet", t("Other groups:"))
            for group in groups:
                trouble = viewer.say(group.trouble_text or group.trouble)
                tone, icon = ("bad", "error") if trouble else ("good", "check")
                chip(f"{group.name}: {trouble or t('ready')}", tone, icon).classes("pier-wraps")

    def _abandon_button(self, group: GroupView, segment: SegmentView) -> None:
        t = self._viewer.t
        why = t("It answers: what it holds is read in order.") if group.answers and not segment.lost else ""
        button(t("Lost for good…"), lambda: self._ask_abandon(group), icon="link_off", disabled_because=why)

    async def _ask_abandon(self, group: GroupView) -> None:
        t, name = self._viewer.t, group.name
        decision = _Decision(
            t("Have nobody wait for {name}?", name=name),
            t("Only if its disks are lost: if its brokers can be brought back, nothing comes out of order."),
            t("Remove it from the chain"),
            name,
            f"{self._path}/abandon",
            {"group": name, "force": group.answers is None},
        )
        self._ask(decision, (await self._cost(decision)).read(AbandonedView).costs)

    def _release_button(self) -> None:
        t = self._viewer.t

        async def ask() -> None:
            decision = _Decision(
                t("Take {code} from its producer?", code=self._code),
                t("Only if it does not come back: otherwise start it again, and have it sweep its spool."),
                t("Let others send"),
                self._code,
                f"{self._path}/release-producer",
                {},
            )
            self._ask(decision, (await self._cost(decision)).read(ReleasedProducerView).costs)

        button(t("Its producer is gone for good…"), ask, icon="link_off")

    async def _cost(self, decision: _Decision) -> ChangeResponse:
        return await self._viewer.api.post(decision.path, {**decision.body, "dry_run": True})

    def _ask(self, decision: _Decision, costs: list[CostView]) -> None:
        """Show the cost of a decision, and send it once a reason is given and a name typed."""
        viewer, t, typed = self._viewer, self._viewer.t, decision.typed
        with self._asking, dialog(decision.title) as asking:
            tag("p", "", decision.said)
            with tag("ul", "pier-list"):
                for cost in costs:
                    tag("li", "", viewer.say(cost.what_text or cost.what))
            needed = {t("It needs a reason."): lambda text: bool((text or "").strip())}
            why = ui.input(t("Reason, for whoever looks at this later"), validation=needed).props("outlined dense")
            why.props["maxlength"] = _LONGEST_REASON
            why.without_auto_validation()
            right = {t("Type {text} to go on", text=typed): lambda text: (text or "").strip() == typed}
            name = ui.input(t("Type {text} to go on", text=typed), validation=right).props("outlined dense")
            name.without_auto_validation()

            async def act() -> bool:
                if not (why.validate() and name.validate()):
                    return False
                await viewer.api.post(decision.path, {**decision.body, "reason": (why.value or "").strip()})
                done(t("It is done, and in the audit log."))
                await self._look()
                return True

            answers(viewer, asking, decision.deed, act)
