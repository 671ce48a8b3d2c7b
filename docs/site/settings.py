"""The reference of the settings, from the model that reads them."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bus.settings import AlarmChannel, AlarmRule, PipelineSettings, Settings
from docs.site.markdown import code, table, words

_HEAD: Final = """\
# Settings

Written from the code. Each is a key of `bus.toml`, and `BUS_` with its name in capitals in the environment, which
wins over the file; a table is JSON there. Sizes are in bytes, times in seconds. [Configuration](../configuration.md)
tells what they are for.
"""
_TYPES: Final = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "`true` or `false`",
    Path: "path",
}
_BOUNDS: Final = {
    "ge": "at least {}",
    "gt": "more than {}",
    "le": "at most {}",
    "max_length": "at most {} characters",
    "min_length": "not empty",
}


class Entry(NamedTuple):
    """Fields that are told of together, and what they mean."""

    names: Sequence[str]
    meaning: str


def page() -> str:
    """Return the page."""
    lines = [*_HEAD.splitlines(), "", *_table(Settings, entries())]
    for title, model in (("alarm_channels", AlarmChannel), ("alarm_rules", AlarmRule)):
        lines += [f"## {title}.NAME", "", "[Alarms](../alarms.md) tells what each is for.", ""]
        lines += _table(model, [Entry([name], "") for name in model.model_fields])
    lines += ["## pipeline", "", "[The data pipeline](../pipeline.md#serve) tells what each is for.", ""]
    lines += _table(PipelineSettings, entries(PipelineSettings))
    return "\n".join(lines)


def entries(model: type[BaseModel] = Settings) -> list[Entry]:
    """Return what the docstring of a model says of each, in its order, and then what it does not tell of."""
    told = list(_told(inspect.getdoc(model) or ""))
    known = {name for entry in told for name in entry.names}
    return told + [Entry([name], "") for name in model.model_fields if name not in known]


def _told(text: str) -> Iterator[Entry]:
    _, _, attributes = text.partition("Attributes\n----------\n")
    for names, meaning in re.findall(r"^(\S.*)\n((?: {4}.*\n?)+)", attributes, re.MULTILINE):
        yield Entry(names.split(", "), words(meaning))


def _table(model: type[BaseModel], found: Sequence[Entry]) -> list[str]:
    has_meaning = any(entry.meaning for entry in found)
    columns = ["setting", "type", "default", *(["meaning"] if has_meaning else [])]
    rows = []
    for entry in found:
        for number, name in enumerate(entry.names):
            meaning = entry.meaning if number == 0 else f"see {code(entry.names[0])}"
            rows.append(
                [_anchored(model, name), *_shape(model.model_fields[name]), *([meaning] if has_meaning else [])]
            )
    return table(columns, rows)


def _anchored(model: type[BaseModel], name: str) -> str:
    return f'<span id="{name}">{code(name)}</span>' if model is Settings else code(name)


def _shape(field: FieldInfo) -> tuple[str, str]:
    bounds = [
        text.format(_number(value)) for name, text in _BOUNDS.items() if (value := _bound(field, name)) is not None
    ]
    return ", ".join([_type(field.annotation), *bounds]), _default(field)


def _bound(field: FieldInfo, name: str) -> Any:
    return next((value for each in field.metadata if (value := getattr(each, name, None)) is not None), None)


def _type(annotation: Any) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each) for each in inner if each is not type(None))
    if origin is Literal:
        return ", ".join(code(each) if each else "empty" for each in inner)
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "table"
    return "list of text" if origin is list else _TYPES[annotation]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "needed"
    if value is None:
        return "left out"
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, int | float):
        return code(_number(value))
    if isinstance(value, BaseModel):
        return "as below"
    return code(value) if value not in ("", {}, []) else "empty"


def _number(value: float) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if value >= unit and value % unit == 0:
            return f"{int(value) // unit} {name}"
    return f"{value:,g}" if value == int(value) and value < 10**6 else str(value)
