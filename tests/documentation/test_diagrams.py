"""The drawings of docs/architecture.md: states are the code's, and each hop is a function of it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import pytest
from sqlalchemy import CheckConstraint

from models.jobs.jobs import JobStatus
from models.runs.run_views import RunStatus
from models.webhooks.deliveries import DeliveryStatus
from models.webhooks.delivery_work import DeliveryWork
from tests.documentation import diagrams
from tests.documentation.diagrams import OUTSIDE, Edge, States
from tests.documentation.statements import BY_PARAMETER, full_name, nodes, reach, writers
from tests.stacks import ROOT

PAGE = "docs/architecture.md"
RUN, SHIFT, DELIVERY, JOB = (diagrams.states(block) for block in diagrams.of_kind(PAGE, "stateDiagram-v2"))
SEQUENCES = diagrams.of_kind(PAGE, "sequenceDiagram")


def of_work(table: type) -> set[str]:
    """Return the values that a table's constraint lets its `status` have."""
    constraints = table.__table__.constraints  # type: ignore[attr-defined]
    texts = [str(one.sqltext) for one in constraints if isinstance(one, CheckConstraint)]
    return {value for text in texts if "status in" in text for value in re.findall(r"'(\w+)'", text)}


@dataclass(frozen=True)
class Machine:
    """A drawing, the states that the code has, and the tables that hold them."""

    drawn: States
    states: set[str]
    tables: tuple[str, ...]

    def written(self) -> Iterator[tuple[str, str]]:
        """Yield each node that writes a state, with the state."""
        for table in self.tables:
            for writer, statuses in writers(table).items():
                yield from ((writer, status) for status in statuses & {*self.states, BY_PARAMETER})

    def edges_into(self, state: str) -> list[Edge]:
        """Return the edges that lead to a state, or into its group."""
        inside = self.drawn.within.get(state, frozenset()) | {state}
        return [edge for edge in self.drawn.edges if edge.target in inside or state == BY_PARAMETER]


MACHINES = {
    "run": Machine(RUN, set(get_args(RunStatus)), ("run_work", "runs")),
    "delivery": Machine(
        DELIVERY, set(get_args(DeliveryStatus)) | of_work(DeliveryWork), ("delivery_work", "deliveries")
    ),
    # Jobs are claimed by a statement that is given its table.
    "job": Machine(JOB, set(get_args(JobStatus)), ("jobs", r"\{\}")),
}
EDGES = [(name, edge) for name, one in MACHINES.items() for edge in one.drawn.edges if edge.functions]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_state_is_drawn_and_no_other(machine: Machine) -> None:
    assert machine.drawn.names == machine.states


@pytest.mark.parametrize(
    ("name", "edge"), EDGES, ids=[f"{name} {one.source}-{one.target}" for name, one in EDGES]
)
def test_each_function_at_a_transition_writes_the_state_that_it_leads_to(name: str, edge: Edge) -> None:
    written = set(MACHINES[name].written())
    for function in map(full_name, edge.functions):
        reached = reach(function)
        by_parameter = any((one, BY_PARAMETER) in written for one in reached)
        named = any(edge.target in nodes()[one].texts for one in reached)
        assert any((one, edge.target) in written for one in reached) or (by_parameter and named), (
            f"{function} does not make a {name} {edge.target}"
        )


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_each_statement_that_writes_a_state_belongs_to_a_transition_into_it(machine: Machine) -> None:
    missing = [
        (writer, status)
        for writer, status in machine.written()
        if not any(writer in reach(*map(full_name, edge.functions)) for edge in machine.edges_into(status))
    ]
    assert missing == []


def test_the_row_of_a_shift_is_changed_by_the_functions_that_are_drawn_alone() -> None:
    drawn = {full_name(function) for edge in SHIFT.edges for function in edge.functions}
    changing = re.compile(r"(insert into|update|delete from) shifts\b")
    in_use = reach(*(name for name in nodes() if "." in name))
    found = {name for name in in_use if any(changing.search(text) for text in nodes()[name].texts)}
    assert found <= reach(*drawn)
    assert SHIFT.edges[0].source == OUTSIDE and {edge.target for edge in SHIFT.edges} >= {OUTSIDE}


def functions_of_the_code() -> set[str]:
    """Return all names of functions: `module.name`, `Class.name`, and those of the database."""
    installed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = [ROOT.joinpath(*name.split(".")) for name in installed["packages"]]
    paths = [path for folder in folders for path in folder.glob("*.py")]
    found = {name for name in nodes() if "." not in name}
    for path in [*paths, *ROOT.glob("*.py")]:
        for owner, body in _bodies(ast.parse(path.read_text()), path.stem):
            for one in body:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(f"{owner}.{one.name}")
                elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    found.add(f"{owner}.{one.target.id}")
    return found


def _bodies(tree: ast.Module, module: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield module, tree.body
    yield from ((one.name, one.body) for one in tree.body if isinstance(one, ast.ClassDef))


def test_each_hop_of_a_sequence_is_a_function_of_the_code() -> None:
    assert len(SEQUENCES) == 3
    known = functions_of_the_code()
    assert {name for block in SEQUENCES for name in diagrams.called(block)} - known == set()


def test_the_states_of_a_run_that_users_see_are_drawn_in_the_concepts() -> None:
    [drawing] = diagrams.of_kind("docs/concepts.md", "stateDiagram-v2")
    assert diagrams.states(drawing).names == set(get_args(RunStatus))
