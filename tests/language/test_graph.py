"""The graph of a definition: what each step waits for, and on which branch."""

from __future__ import annotations

from language.definition import Definition
from language.graph import draw_graph


def test_a_graph_has_the_order_the_needs_and_the_branches() -> None:
    call = {"url": "https://example.com"}
    definition = Definition.model_validate(
        {
            "name": "Drawn",
            "steps": [
                {"id": "a", "name": "First", "type": "transform", "config": {"expression": "trigger"}},
                {"id": "b", "type": "condition", "config": {"expression": "a", "then": ["c"], "else": ["d"]}},
                {"id": "c", "type": "webhook", "config": call, "on_error": ["f"]},
                {"id": "d", "type": "webhook", "config": call},
                {"id": "e", "type": "transform", "config": {"expression": "a"}, "needs": ["a", "d"]},
                {"id": "f", "type": "webhook", "config": call},
            ],
        }
    )
    graph = draw_graph(definition).model_dump()
    assert [node["id"] for node in graph["nodes"]] == list("abcdef")
    assert graph["nodes"][0] == {"id": "a", "type": "transform", "name": "First"}
    assert [(edge["from"], edge["to"], edge["label"]) for edge in graph["edges"]] == [
        ("a", "b", None), ("b", "c", "then"), ("b", "d", "else"), ("a", "e", None), ("d", "e", None),
        ("c", "f", "on_error"),
    ]  # fmt: skip
