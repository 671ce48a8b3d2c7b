"""Forms: every field has a label and a hint, and shows why the API refused its value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from admin.models.responses.access import KeyView
from admin.models.responses.configuration import DestinationView
from admin.pages.api_error import ApiError
from admin.pages.parts.buttons import button
from admin.pages.parts.notes import refusal
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer

Field = ValidationElement[Any]
_LOOK = "outlined dense stack-label"


class Form:
    """A form: its fields by their names in the API."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._fields: dict[str, Field] = {}
        self._troubles = tag("div", "", role="alert")

    def text(self, name: str, label: str, value: str = "", *, hint: str = "", fixed: bool = False) -> None:
        """Add a line of text; ``fixed`` shows it only."""
        field = ui.input(label, value=value).props(_LOOK).props("spellcheck=false autocomplete=off")
        self._add(name, field, hint, fixed=fixed)

    def lines(self, name: str, label: str, value: str = "", *, hint: str = "") -> None:
        """Add lines of text."""
        self._add(name, ui.textarea(label, value=value).props(_LOOK).props("autogrow spellcheck=false"), hint)

    def number(self, name: str, label: str, value: float | None, *, hint: str = "") -> None:
        """Add a number, which may be left empty."""
        self._add(name, ui.number(label, value=value).props(_LOOK), hint)

    def choice(
        self, name: str, label: str, options: Sequence[str] | Mapping[str, str], value: str, *, hint: str = ""
    ) -> None:
        """Add a field to choose one value; a mapping has the label of each."""
        known = dict(options) if isinstance(options, Mapping) else list(options)
        self._add(name, ui.select(known, label=label, value=value).props(_LOOK), hint)

    def has(self, name: str) -> bool:
        """Whether there is a field of this name."""
        return name in self._fields

    def value(self, name: str) -> object:
        """Return the current value of a field; None for an empty one."""
        found = self._fields[name].value
        return None if found in ("", None) else found

    def whole(self, name: str) -> object:
        """Return a number without a fraction as a whole one; any other value as it is, for the API to judge."""
        found = self.value(name)
        return int(found) if isinstance(found, float) and found.is_integer() else found

    def require(self, name: str, why: str) -> bool:
        """Whether a field has a value; show ``why`` at the field if it is empty."""
        if self.value(name) is None:
            self.fail(name, why)
            return False
        return True

    def fail(self, name: str, why: str) -> None:
        """Show at a field what is wrong with its value."""
        self._fields[name].error = why
        self._fields[name].run_method("focus")

    def send(self, text: str, action: Callable[[], Awaitable[None]], *, disabled_because: str = "") -> ui.button:
        """Add the button that sends the form; an error of the API is shown at the field that it names."""

        async def submit() -> None:
            self._clear()
            try:
                await action()
            except ApiError as error:
                self._tell(error)

        return button(text, submit, kind="primary", disabled_because=disabled_because)

    def _add(self, name: str, field: Field, hint: str, *, fixed: bool = False) -> None:
        field.props["hint"] = hint
        field.classes("pier-field")
        if fixed:
            field.props["readonly"] = True
        self._fields[name] = field

    def _clear(self) -> None:
        self._troubles.clear()
        for field in self._fields.values():
            field.error = None

    def _tell(self, error: ApiError) -> None:
        name = error.field.partition(".")[0]
        if name in self._fields:
            self.fail(name, self._viewer.say(error.detail))
        else:
            with self._troubles:
                refusal(self._viewer, error)


def rate_fields(viewer: Viewer, form: Form, limits: DestinationView | KeyView) -> None:
    """Add the fields that limit how many messages are accepted."""
    t = viewer.t
    hint = t("Empty for no limit; what is above it is refused (429), and sent again by the SDK.")
    form.number("rate", t("Messages a second, each receiver"), limits.rate, hint=hint)
    form.number("burst", t("Messages at once"), limits.burst, hint=t("Empty for one second's worth."))
