"""The graph of a definition's steps: what pages, the command line and agents draw."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from language.branches import branches_of, needs_of
from language.definition import Definition


class GraphNode(BaseModel):
    """A step."""

    id: str = Field(description="The step's id.")
    type: str = Field(description="What kind of step it is.")
    name: str | None = Field(description="What it is called; null if it has no name.")


class GraphEdge(BaseModel):
    """A step that another one waits for."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: str = Field(alias="from", description="The step that ends first.")
    target: str = Field(alias="to", description="The step that waits for it.")
    label: Literal["then", "else", "on_error"] | None = Field(
        description="The end of the first step after which alone the other runs; null where any will do."
    )


class Graph(BaseModel):
    """The steps, in list order, and what each waits for."""

    nodes: list[GraphNode] = Field(description="The steps.")
    edges: list[GraphEdge] = Field(description="What they wait for.")


def draw_graph(definition: Definition) -> Graph:
    """Return the graph of a definition's steps.

    A step of a branch also waits for the step before it in the list. That is left out, since it would draw
    two branches as one line.
    """
    labels = {(one.step_id, member): one.outcome for one in branches_of(definition) for member in one.members}
    on_branches = {member for _, member in labels}
    needs, edges = needs_of(definition), list[GraphEdge]()
    for step in definition.steps:
        for need in needs[step.id]:
            label = labels.get((need, step.id))
            if label is not None or step.needs is not None or step.id not in on_branches:
                edges.append(GraphEdge.model_validate({"from": need, "to": step.id, "label": label}))
    nodes = [GraphNode(id=step.id, type=step.type, name=step.name) for step in definition.steps]
    return Graph(nodes=nodes, edges=edges)
