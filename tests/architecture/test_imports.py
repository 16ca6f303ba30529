"""Who may import whom, and what workflow code may not touch."""

import ast
import re
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from execution import build

ROOT = Path(__file__).resolve().parents[2]
LEAVES = {
    "settings", "setting_types", "concurrency", "database", "micro_batcher", "notifications", "pipelined",
    "sealing", "logs", "metrics", "process", "telemetry", "tracing", "watchdog",
}  # fmt: skip
ALLOWED = {
    # `migrations.revisions` only says which schema the code needs.
    "api": {
        "api", "assistant", "services", "models", "providers", "outbound", "temporal", "language",
        "migrations.revisions",
    } | LEAVES,
    "assistant": {"assistant", "services", "models", "outbound"} | LEAVES,
    "language": {"language"},
    "engine": {"engine", "language"},
    "workflows": {"workflows"},
    "activities": {"activities", "execution", "services", "models", "providers", "engine", "language",
        "outbound", "temporal", "workflows.messages"} | LEAVES,
    "execution": {"execution", "services", "models", "providers", "engine", "language", "outbound",
        "temporal", "workflows.messages"} | LEAVES,
    # The loops know the activities whose workflows they start, and what they share with these of a process.
    "dispatch": {"dispatch", "activities", "execution", "models", "temporal", "workflows.messages"} | LEAVES,
    "services": {
        "services", "models", "providers", "engine", "language", "outbound", "temporal", "migrations",
    } | LEAVES,
    "providers": {"providers", "models", "outbound"} | LEAVES,
    "models": {"models", "outbound.guard", "language"} | LEAVES,
    "outbound": {"outbound"} | LEAVES,
    "temporal": {"temporal", "workflows"} | LEAVES,
    # The supervisor and what it starts; the pieces of the rest that `doctor` and a first start look at.
    "embedded": {
        "embedded", "services.operator", "models.accounts", "models.installation", "models.runs.history",
        "models.runs.workers", "models.runs.builds", "providers", "temporal", "migrations.revisions",
    } | LEAVES,
    "migrations": {"migrations", "models", "sql", "database", "settings"},
    # The processes that its commands run, and the rest of what `vedette` does.
    "cli": {
        "cli", "embedded", "services", "models", "providers", "temporal", "migrations.revisions", "worker",
        "api.server", "outbound.signing", "language.references",
        "language.validation.definition",
    } | LEAVES,
}  # fmt: skip
OURS = {*ALLOWED, *LEAVES, "sql", "worker"}
# Pure and fixed for good: the same on every replay.
WORKFLOW_LIBRARIES = {"temporalio", "pydantic", "orjson"}
# A lexer and a parser, which do nothing but read a text; no workflow imports expressions.
EXPRESSION_LIBRARIES = {"jmespath"}
WORKFLOW_STANDARD = sys.stdlib_module_names - {
    "os", "random", "secrets", "time", "socket", "subprocess", "threading", "pathlib", "uuid", "io", "shutil",
}  # fmt: skip
# Types of values that come in from outside; making one of "now" or of chance is caught below.
WORKFLOW_STANDARD |= {"uuid"}
FORBIDDEN_CALLS = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "uuid4", "uuid1", "uuid.uuid4",
    "open", "print", "eval", "exec", "input",
}  # fmt: skip
FORBIDDEN_NAMES = {"utils", "helpers", "common", "core", "manager"}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)


PURE = [path for package in ("workflows", "engine", "language") for path in modules(package)]


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_its_place_allows(package: str) -> None:
    for path in modules(package):
        ours = {name for name in imports(path) if name.split(".")[0] in OURS}
        wrong = {name for name in ours if not within(name, ALLOWED[package])}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_a_leaf_imports_only_leaves(leaf: str) -> None:
    ours = {name for name in imports(ROOT / f"{leaf}.py") if name.split(".")[0] in OURS}
    assert not {name for name in ours if not within(name, LEAVES)}


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_workflow_code_imports_nothing_that_could_differ_on_replay(path: Path) -> None:
    allowed = {"workflows", "engine", "language", "__future__"} | WORKFLOW_LIBRARIES | WORKFLOW_STANDARD
    if path.is_relative_to(ROOT / "language" / "expressions"):
        allowed |= EXPRESSION_LIBRARIES
    for name in imports(path):
        assert name.split(".")[0] in allowed, name


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_workflow_code_calls_no_clock_no_chance_and_no_files(path: Path) -> None:
    calls = {
        ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
    }
    assert not calls & FORBIDDEN_CALLS


def find_circle(edges: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def named_modules() -> dict[str, Path]:
    """Every module of ours by its name; a package is what its `__init__` is."""
    paths = [path for package in ALLOWED for path in modules(package)]
    paths += [ROOT / f"{name}.py" for name in (*LEAVES, "worker")]
    names = [path.relative_to(ROOT).with_suffix("").parts for path in paths]
    return {
        ".".join(name[:-1] if name[-1] == "__init__" else name): path
        for name, path in zip(names, paths, strict=True)
    }


def test_no_modules_import_each_other_in_a_circle_nor_do_folders_at_any_depth() -> None:
    known = named_modules()
    edges: dict[str, set[str]] = {}
    for module, path in known.items():
        # `from a.b import c`: the module `a.b.c`, or else a name in `a.b`.
        found = {name if name in known else name.rpartition(".")[0] for name in imports(path)}
        edges[module] = {name for name in found if name in known and name != module}
    assert not find_circle(edges)
    for depth in range(1, max(name.count(".") for name in known) + 1):
        # What lies side by side in one folder: modules, and folders as a whole.
        beside: dict[str, set[str]] = {}
        for module, others in edges.items():
            start = module.split(".")[:depth]
            for other in others:
                end = other.split(".")[:depth]
                if start != end and start[:-1] == end[:-1]:
                    beside.setdefault(".".join(start), set()).add(".".join(end))
        assert not find_circle(beside)


SQL_STATEMENT = re.compile(
    r"\s*(select\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|with\s+\w+\s+as\s)"
)
# An index in a file of SQLite; the server that is made here; what every connection is told, and tells.
SQL_ELSEWHERE = {
    "providers/darkweb/ransomwarelive.py", "embedded/postgres.py", "database.py", "notifications.py",
    "pipelined.py",
}  # fmt: skip


def test_all_sql_stands_in_models_sql_and_migrations() -> None:
    for name, path in named_modules().items():
        place = path.relative_to(ROOT).as_posix()
        if name.split(".")[0] in ("models", "migrations") or place in SQL_ELSEWHERE:
            continue
        texts = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in texts if SQL_STATEMENT.match(text)], place


def test_the_name_of_a_build_covers_all_code_that_executes_runs() -> None:
    # A run that one build could not execute is tried by another: a fix must make another name.
    executing = {name.split(".")[0] for name in ALLOWED["execution"]} | {"activities"}
    assert set(build._PACKAGES) == executing - LEAVES  # pyright: ignore[reportPrivateUsage]


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert not [path for package in ALLOWED for path in modules(package) if path.stem in FORBIDDEN_NAMES]


def test_all_modules_and_packages_are_installed() -> None:
    """An installation has what pyproject.toml names, and nothing else of this folder."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert setuptools["py-modules"] == sorted(path.stem for path in ROOT.glob("*.py"))
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("[a-z]*/**/__init__.py")}
    packages = {
        ".".join(folder.parts)
        for folder in folders
        if folder.parts[0] not in ("tests", "bench", "supply", "docsite")
    }
    assert set(setuptools["packages"]) == packages


def test_the_page_for_contributors_has_a_line_for_each_room_with_what_it_may_import() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", page, re.MULTILINE)
    told = {
        room: {room, *re.findall(r"`([\w.]+)`", names)} | (LEAVES if "the leaves" in names else set())
        for room, names in rows
    }
    assert told == ALLOWED
    assert all(f"`{leaf}`" in page for leaf in LEAVES)
