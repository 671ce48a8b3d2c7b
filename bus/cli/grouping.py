"""Options of several commands, defined once as a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any, TypeVar, get_type_hints

Result = TypeVar("Result")


def grouped(command: Callable[..., Result]) -> Callable[..., Result]:
    """Return a command with the fields of its dataclass parameters as options, in the place of each parameter.

    A field is defined like a parameter, ``Annotated`` with its option and with a default; the command is called with
    the dataclass.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }
    shown = [
        option
        for name, each in parameters.items()
        for option in (_options(groups[name]) if name in groups else [each.replace(kind=Parameter.KEYWORD_ONLY)])
    ]

    @functools.wraps(command)
    def run(**given: Any) -> Result:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in shown}
    return run


def _options(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]
