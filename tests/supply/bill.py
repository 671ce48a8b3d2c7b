"""The software bill of materials: what is installed of the product, as CycloneDX."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import Distribution
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from tests.supply.installed import needs, project, wanted
from tests.supply.licences import licence_of

SCHEMA: Final = SchemaVersion.V1_6


def bill(packages: Mapping[str, Distribution]) -> str:
    """Return the bill as JSON: each package with its version, its licence, and what it needs."""
    bom = Bom()
    product = _product()
    bom.metadata.component = product
    parts = {name: _component(name, package) for name, package in packages.items()}
    for part in parts.values():
        bom.components.add(part)
    bom.register_dependency(product, [parts[name] for name in wanted()])
    for name, package in packages.items():
        bom.register_dependency(parts[name], [parts[other] for other in needs(package) if other in parts])
    return make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2) + "\n"


def _product() -> Component:
    described = project()
    return Component(
        name=described["name"],
        version=described["version"],
        type=ComponentType.APPLICATION,
        bom_ref=described["name"],
        description=described["description"],
    )


def _component(name: str, package: Distribution) -> Component:
    url = PackageURL("pypi", name=name, version=package.version)
    licence = licence_of(name, package)
    return Component(
        name=name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=str(url),
        purl=url,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
    )
