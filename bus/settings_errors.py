"""Texts about refused settings, in the terms of the bus rather than of the library that checks them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from bus.suggestions import did_you_mean

_WORDS: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table of names and values",
    "list_type": "a list",
    "literal_error": "{expected}",
    "float_type": "a number",
    "model_type": "a table of names and values",
    "path_type": "a path",
    "string_too_long": "{max_length} characters at most",
    "string_too_short": "a value that is not empty",
    "string_type": "text",
    "value_error": "{error}",
}
_KINDS: Final = ("float", "str")  # what a path ends with where a value may be either
_NUMBERS: Final = ("int_", "float_", "finite_number", "greater_than", "less_than")
# Of what has to match a pattern, by its name.
_SHAPES: Final = {
    "[key]": "a name of a-z, 0-9 and -, 32 characters at most",
    "events_topic": "A-Z, a-z, 0-9, . and -, 180 characters at most",
    "public_url": "http:// or https://, a host and no path",
    "quiet": "two times such as 22:00-07:00",
}
# What may have a password in it is not repeated.
_HIDDEN: Final = re.compile(r"password|secret|_key|headers|groups|rabbitmq|channels")


def unknown(name: str, known: Sequence[str], where: str = "") -> str:
    """Say that there is no such setting, and which one is like it."""
    meant = did_you_mean(name.rpartition(".")[2], known)
    return f"unknown setting {name!r}{where}" + (f": {meant}" if meant else "")


def explain(error: ValidationError, model: type[BaseModel], parts: Mapping[str, type[BaseModel]]) -> str:
    """Say what is wrong with settings: each key, what was given, and what is expected.

    Parameters
    ----------
    parts
        Of keys whose values are tables by name, what such a table is.
    """
    return "; ".join(_explain(detail, parts.get(str(detail["loc"][0]), model)) for detail in error.errors())


def _explain(detail: Any, model: type[BaseModel]) -> str:
    path = [str(part) for part in detail["loc"]]
    if path[-1] in _KINDS and len(path) > 1:
        path.pop()
    if detail["type"] == "extra_forbidden":
        return unknown(".".join(path), list(model.model_fields))
    expected = _expected(detail, path[-1], model.model_fields.get(path[-1]))
    if path[-1] == "[key]":
        return f"{'.'.join(path[:-2])}: {path[-2]!r} is no name in it; expected {expected}"
    if detail["type"] == "missing":
        return f"{'.'.join(path)} is missing"
    given = detail["input"]
    is_told = isinstance(given, (str, int, float)) and not _HIDDEN.search(path[0])
    return f"{'.'.join(path)}{f' = {given!r}' if is_told else ''}: expected {expected}"


def _expected(detail: Any, name: str, field: FieldInfo | None) -> str:
    kind: str = detail["type"]
    if kind.startswith(_NUMBERS) and field is not None:
        return _number(field)
    if kind == "string_pattern_mismatch":
        return _SHAPES[name]
    words = _WORDS.get(kind)
    return words.format(**detail.get("ctx", {})) if words else "another value"


def _number(field: FieldInfo) -> str:
    """Return which numbers a setting may be."""
    kind = "a number" if "float" in str(field.annotation) else "a whole number"
    least, above, most = (_bound(field, name) for name in ("ge", "gt", "le"))
    if above is not None:
        return f"{kind} above {above}"
    if least is None:
        return kind
    return f"{kind}, {least} or more" if most is None else f"{kind} from {least} to {most}"


def _bound(field: FieldInfo, name: str) -> Any:
    return next((value for each in field.metadata if (value := getattr(each, name, None)) is not None), None)
