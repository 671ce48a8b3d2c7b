"""The packages that an installation of the product with all of its extras has, those of development left out."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.harness.process import ROOT

_DEVELOPMENT: Final = {"dev", "docs"}


class NotInstalled(Exception):
    """A package that the product needs is not installed here."""


def product() -> dict[str, Distribution]:
    """Return the packages by their canonical names, in the order of these."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = list(_wanted())
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) not in seen:
            seen.add((name, extras))
            found[name] = _installed(name)
            todo += _needs(found[name], extras)
    return dict(sorted(found.items()))


def needs(package: Distribution) -> list[str]:
    """Return the names of what a package needs here, without extras."""
    return sorted({canonicalize_name(each.name) for each in _needs(package, frozenset())})


def project() -> Mapping[str, str]:
    """Return what ``pyproject.toml`` says of the product itself."""
    described: Mapping[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return described


def wanted() -> list[str]:
    """Return the names of what the product itself asks for."""
    return sorted({canonicalize_name(each.name) for each in _wanted()})


def _wanted() -> Iterator[Requirement]:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras: Mapping[str, Sequence[str]] = described["optional-dependencies"]
    asked = [each for name, extra in extras.items() if name not in _DEVELOPMENT for each in extra]
    yield from map(Requirement, [*described["dependencies"], *asked])


def _needs(package: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for each in map(Requirement, package.requires or ()):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield each


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise NotInstalled(f"{name} is not installed: make install") from error
