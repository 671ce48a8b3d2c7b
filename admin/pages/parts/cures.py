"""The resends and discards under way that cure an alarm, with their progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admin.models.responses.resends import CureView
from admin.pages.parts.figures import count
from admin.pages.parts.jobs import state_of
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer
from admin.repair.jobs import Kind
from bus.localized_text import N_

_TITLES: Final = {Kind.RESEND: N_("A resend is under way"), Kind.DISCARD: N_("A discard is under way")}


def show_cures(viewer: Viewer, cures: Sequence[CureView]) -> None:
    """Show each with a link to it, how far it is, and whose it is."""
    t = viewer.t
    for one in cures:
        with tag("p", "pier-quiet"):
            link(t(_TITLES[one.kind]), f"/admin/resends/{one.id}")
            told = [t(state_of(one.kind, one.state)), t("by {name}", name=one.by)]
            if one.total is not None:
                told.insert(0, t("{ended} of {total}", ended=count(one.ended), total=count(one.total)))
            tag("span", "pier-bidi", f": {' · '.join(told)}")
