"""Under which licence each package is, and whether that is one of those that are allowed."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, Final

from license_expression import ExpressionError, Licensing, get_spdx_licensing

FILE: Final = Path(__file__).with_name("supply.toml")
_LONGEST: Final = 60  # what is longer is the text of a licence, not its name


@cache
def rules() -> Mapping[str, Any]:
    """Return what is allowed, and what texts mean."""
    found: Mapping[str, Any] = tomllib.loads(FILE.read_text("utf-8"))["licences"]
    return found


def complaints(packages: Mapping[str, Distribution]) -> list[str]:
    """Return a line for each package whose licence is not allowed, or cannot be told."""
    return list(_complaints({name: licence_of(name, package) for name, package in packages.items()}))


def _complaints(licences: Mapping[str, str]) -> Iterator[str]:
    for name, licence in licences.items():
        if not licence:
            yield f"{name} does not say under which licence it is: read it, and add it to {FILE.name}"
        elif not is_allowed(licence, rules()["allowed"]):
            yield f"{name} is under {licence}, which {FILE.name} does not allow"


def licence_of(name: str, package: Distribution) -> str:
    """Return a licence as an SPDX expression, as a package says it itself; empty when it does not."""
    said: Mapping[str, str] = rules()["said"]
    if read := rules()["read"].get(name):
        return str(read)
    metadata = package.metadata
    field = (metadata.get("License") or "").strip()
    if expression := metadata.get("License-Expression") or said.get(field):
        return str(expression)
    classifiers = [
        text.split(" :: ")[-1] for text in metadata.get_all("Classifier") or () if text.startswith("License")
    ]
    if classifiers:
        return " AND ".join(said.get(text, _reference(text)) for text in classifiers)
    return field if len(field) <= _LONGEST else ""


def is_allowed(licence: str, allowed: Collection[str]) -> bool:
    """Whether an SPDX expression can be met with licences that are allowed."""
    try:
        return _is_met(_spdx().parse(licence), allowed)
    except ExpressionError:
        return False


def _is_met(expression: Any, allowed: Collection[str]) -> bool:
    spdx = _spdx()
    if isinstance(expression, spdx.OR):
        return any(_is_met(each, allowed) for each in expression.args)
    if isinstance(expression, spdx.AND):
        return all(_is_met(each, allowed) for each in expression.args)
    return str(expression) in allowed


@cache
def _spdx() -> Licensing:
    """Return the names of all licences, which takes some tenths of a second to read."""
    return get_spdx_licensing()


def _reference(text: str) -> str:
    return "LicenseRef-" + "".join(letter if letter.isalnum() else "-" for letter in text)
