"""HTML elements by their own names: a heading is a heading, a link is a link."""

from __future__ import annotations

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement


class Tag(TextElement):
    """An element of HTML; its text is never markup."""

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(tag=name, text=text)


def tag(name: str, classes: str = "", /, text: object = "", **attributes: object) -> Tag:
    """Return an element.

    Parameters
    ----------
    attributes
        Those of HTML, with ``_`` for ``-`` and after keywords of Python (``for_``); one that is None is left out.
    """
    element = Tag(name, str(text))
    if classes:
        element.classes(classes)
    for key, value in attributes.items():
        if value is not None:
            element.props[key.rstrip("_").replace("_", "-")] = value
    return element


def fill(box: Element, value: str) -> None:
    """Set the initial value of an input; text typed later survives updates of the page."""
    box.props["^value"] = value  # the attribute: Vue would reset the property at each update of the page


def link(text: object, href: str, classes: str = "", **attributes: object) -> Tag:
    """Return a link to a path of this bus."""
    return tag("a", classes, text, href=href, **attributes)
