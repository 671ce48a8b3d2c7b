"""Secrets that are shown only once: in the page itself, until the viewer has saved them and continues."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

from nicegui import ui

from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer

_numbers: Final = count(1)


def kept(
    viewer: Viewer,
    title: str,
    secrets: Mapping[str, str],
    *,
    then: tuple[str, str],
    closed: str = "",
    is_hashed: bool = True,
) -> None:
    """Show secrets that are never shown again, each with its name, and a link to continue.

    ``is_hashed`` is whether the bus stores only hashes of them; else they are encrypted, since it signs with them.

    The page stays when its session ends, as it does once the first user of an open bus is created; ``closed`` says what
    to do then, and is empty if the session continues.
    """
    t = viewer.t
    with tag("section", "pier-card pier-narrow pier-kept", aria_label=title, role="alert", data_pier_keep=""):
        tag("h2", "", title)
        hashed = t("This is shown only now. The bus keeps a hash of it, so nobody can show it again.")
        sealed = t("This is shown only now. The bus signs with it and never shows it again.")
        tag("p", "", hashed if is_hashed else sealed)
        for name, secret in secrets.items():
            _secret(viewer, name, secret)
        if closed:
            tag("p", "pier-quiet", closed)
        else:
            tag(
                "p",
                "pier-quiet",
                t("The session has ended meanwhile; log in to go on."),
                hidden=True,
                data_pier_ended="",
            )
        link(then[0], then[1], "pier-deed")


def _secret(viewer: Viewer, name: str, secret: str) -> None:
    t, number = viewer.t, next(_numbers)
    with tag("div", "pier-once"):
        tag("span", "pier-quiet", name)
        tag("code", "", secret, id=f"pier-once-{number}", tabindex="0", aria_label=name)
        with tag(
            "button",
            "pier-copy",
            type="button",
            data_pier_copy=f"pier-once-{number}",
            data_copied=t("Copied"),
            data_failed=t("Selected: copy it by hand"),
        ):
            ui.icon("content_copy", size="16px").props["aria-hidden"] = "true"
            tag("span", "", t("Copy"))
