"""The files of the dashboard: vendored ones are what their packages make, and types hold."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

import web
from services.documentation import read_page
from tests.openapi.generators import openapi_typescript
from tests.pinned_packages import npm_packages, run

WEB = Path(web.__file__).parent
VENDOR = WEB / "vendor"
OURS = sorted(WEB.glob("*.js")) + sorted(WEB.glob("pages/*.js")) + sorted(WEB.glob("components/*.js"))


@pytest.mark.node
def test_vendored_modules_are_what_the_pinned_packages_make(tmp_path: Path) -> None:
    packages = npm_packages(VENDOR / "package-lock.json")
    (tmp_path / "node_modules").symlink_to(packages)
    for name in ("build.mjs", "package.json"):
        (tmp_path / name).write_bytes((VENDOR / name).read_bytes())
    run("node", tmp_path / "build.mjs", cwd=tmp_path)
    for name in ("preact.js", "dagre.js", "uplot.js", "manifest.json"):
        assert (tmp_path / name).read_bytes() == (VENDOR / name).read_bytes(), f"make {name} anew"


def test_the_manifest_has_the_hash_of_each_vendored_module() -> None:
    modules = json.loads((VENDOR / "manifest.json").read_text())["modules"]
    assert modules.keys() == {path.name for path in VENDOR.glob("*.js")}
    for name, told in modules.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == told["sha256"]


@pytest.mark.long
@pytest.mark.node
def test_the_types_of_our_modules_hold() -> None:
    tsc = openapi_typescript() / "typescript" / "bin" / "tsc"
    run("node", tsc, "--project", WEB / "tsconfig.json")


def test_modules_make_no_html_and_no_styles_of_text() -> None:
    """Else a stranger's text could become a page; Trusted Types refuse the first two in browsers too."""
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|eval\(|style="
    assert [path.name for path in OURS if re.search(sinks, path.read_text())] == []


def test_pages_lead_to_documentation_that_is_there() -> None:
    named = {name for path in OURS for name in re.findall(r'"/docs/([^"]+)"', path.read_text())}
    places = {name: name.partition("#") for name in sorted(named)}
    assert (
        named
        and [name for name, (page, _, anchor) in places.items() if read_page(page, anchor or None) is None]
        == []
    )


def test_the_pictures_of_the_documentation_are_small_and_all_of_them_are_shown() -> None:
    docs = WEB.parent / "docs"
    pictures = {path.relative_to(docs).as_posix(): path for path in docs.glob("images/dashboard/*.png")}
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', (docs / "dashboard.md").read_text())
    assert sorted(shown) == sorted(pictures)
    for name, path in pictures.items():
        picture = path.read_bytes()
        assert len(picture) <= 100_000 and int.from_bytes(picture[16:20]) == 1200, name


def imported(path: Path, found: set[Path]) -> set[Path]:
    """A module and all that it imports before it runs."""
    if path not in found:
        found.add(path)
        for name in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            imported((path.parent / name).resolve(), found)
    return found


@pytest.mark.parametrize("page", sorted(WEB.glob("pages/*.js")), ids=lambda path: path.stem)
def test_a_page_loads_few_bytes_of_script(page: Path) -> None:
    scripts = imported(page, imported(WEB / "main.js", set()))
    assert sum(len(gzip.compress(path.read_bytes())) for path in scripts) < 60_000
