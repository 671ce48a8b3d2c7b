"""Keys of a subscription that are held up, with buttons to resume or skip them."""

from __future__ import annotations

from nicegui import ui
from nicegui.events import GenericEventArguments

from admin.models.responses.base import Listing
from admin.models.responses.ordering import DecidedView, HeldKeyView
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.figures import count
from admin.pages.parts.following import EVERY, patient
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import done
from admin.pages.parts.reasons import asked_reason
from admin.pages.parts.sections import Section
from admin.pages.parts.tables import Cell, Column, Row, moment, number, place, state, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.security.keys import Action


class HeldKeys:
    """The section of a subscription's page: it follows the bus, and its rows keep their places."""

    def __init__(self, viewer: Viewer, code: str, name: str) -> None:
        t = viewer.t
        self._viewer = viewer
        self._path = f"/destinations/{code}/subscriptions/{name}/keys"
        self._all = f"bus ordering show {code} {name}"
        self._may_decide = viewer.may(Action.RESEND, code)
        columns = [
            Column("held", t("Key")),
            Column("waiting", t("Waiting"), is_number=True),
            Column("state", t("State")),
            Column("by", t("Held up by")),
            Column("reason", t("Reason")),
            Column("since", t("Since")),
        ]
        if self._may_decide:
            columns.append(Column("deeds", t("Decide"), shows="deeds"))
        self._section = Section(viewer, t("Keys that are held up"), columns, decide=self._decide)

    async def follow(self) -> None:
        """Show the keys that are held up, and update them from then on."""
        await self._look()
        ui.timer(EVERY, patient(self._viewer, self._look), immediate=False)

    async def _look(self) -> None:
        t = self._viewer.t
        found = await self._viewer.api.get(self._path, Listing[HeldKeyView])
        said = t("Deliveries of these keys wait for the one that failed; all other keys go on.")
        if found.next is not None:
            said = t("These are the first; all of them: {command}", command=self._all)
        nothing = (t("No key is held up"), t("Each message of a key is delivered after the one before it."))
        self._section.show([self._row(held) for held in found.items], said=said, nothing=nothing)

    def _row(self, held: HeldKeyView) -> Row:
        viewer, by = self._viewer, held.held_up_by
        return {
            "key": held.key,
            "held": text(visible(held.key), mono=True, cut=True),
            "waiting": number(count(held.waiting)),
            "state": state(viewer, held.status, self._more(held)),
            "by": place(by, f"/admin/messages/{by}", title=by, mono=True),
            "reason": text(visible(viewer.reason(held.reason)), cut=True),
            "since": moment(viewer, held.since),
            "deeds": self._deeds(held) if self._may_decide else None,
        }

    def _more(self, held: HeldKeyView) -> str:
        """Return how often it was tried, and when it is tried next."""
        t, made, due = self._viewer.t, held.attempts, held.next_attempt_at
        if due is None:
            return t("attempt {n}", n=made)
        return t("attempt {n}, next at {time}", n=made, time=self._viewer.near(due))

    def _deeds(self, held: HeldKeyView) -> Cell:
        t, key = self._viewer.t, held.key
        resume = {"name": "resume", "text": t("Resume"), "said": t("Resume the key {key}", key=key)}
        skip = {"name": "skip", "text": t("Skip…"), "said": t("Skip what holds up the key {key}", key=key)}
        return {"deeds": [resume, skip]}

    async def _decide(self, event: GenericEventArguments) -> None:
        deed, key = event.args
        if deed == "skip":
            self._ask_skip(str(key))
        else:
            await self._resume(str(key))

    async def _resume(self, key: str) -> None:
        await self._viewer.api.post(f"{self._path}/resume", {"key": key})
        done(self._viewer.t("It is attempted again within seconds; the others of its key follow."))
        await self._look()

    def _ask_skip(self, key: str) -> None:
        t = self._viewer.t
        with dialog(t("Skip what holds up the key {key}?", key=visible(key))) as asking:
            tag(
                "p", "", t("It is set aside: this subscriber does not get it, unless an attempt is under way just now.")
            )
            tag(
                "p",
                "",
                t("The next messages of the key are delivered without it. It can be resent later, out of order."),
            )
            why = asked_reason(self._viewer)

            async def act() -> bool:
                asked = {"key": key, "reason": (why.value or "").strip()}
                skipped = (await self._viewer.api.post(f"{self._path}/skip", asked)).read(DecidedView)
                done(t("{message} is set aside; its key goes on.", message=skipped.message_id))
                await self._look()
                return True

            answers(self._viewer, asking, t("Skip it"), act)
