"""The pages at /docs/api and /docs/reference, written from OpenAPI, and the list of pages without a site."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import orjson

from api.http.catalogue import CATALOGUE
from api.http.errors import MEDIA_TYPE
from api.http.openapi import Operation, operations
from api.schemas.reference_fields import FieldRow, Fields
from services.documentation import Page

START = """"use strict";
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  filter: true,
  validatorUrl: null,
  // The page may have come by another name of the service than its public one: the browser lets it call that.
  requestInterceptor: (request) => {
    const url = new URL(request.url, location.href);
    request.url = location.origin + url.pathname + url.search;
    return request;
  },
});
"""

STYLE = """body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem;
  padding: 0 1rem 4rem; color: #1b1f24; background: #fff; }
nav { padding: .75rem 0; border-bottom: 1px solid #d5dae1; }
nav a { margin-right: 1.25rem; }
a { color: #0b57b0; }
h2 { margin: 3rem 0 .25rem; padding-top: 1rem; border-top: 1px solid #d5dae1; }
h3 { margin: 1.5rem 0 .25rem; font-size: 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { background: #f4f6f8; padding: .75rem; overflow: auto; max-height: 26rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0;
  border-bottom: 1px solid #e6e9ee; }
th { font-weight: 600; }
th { width: 25%; }
th:last-child { width: auto; }
td:first-child { white-space: nowrap; }
.call { font-size: 1.05rem; }
.quiet { color: #56606b; }
@media (prefers-color-scheme: dark) {
  body { color: #dfe3e8; background: #14171a; }
  a { color: #7db4f5; }
  pre { background: #1e2328; }
  nav, h2, th, td { border-color: #343b43; }
  .quiet { color: #9aa4af; }
}
"""

_NAVIGATION = """<nav><a href="/docs/">Documentation</a> <a href="/docs/api">Try it out</a> \
<a href="/docs/reference">Reference</a> \
<a href="/auth.md">auth.md</a> <a href="/llms.txt">llms.txt</a> <a href="/openapi.json">openapi.json</a></nav>
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/assets/style.css">
<title>{title}</title>
</head>
<body>
{navigation}{content}
</body>
</html>
"""
_TRY = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
<title>vedette: try it out</title>
</head>
<body>
{navigation}<div id="swagger-ui"></div>
<noscript><p>This page needs JavaScript; the <a href="/docs/reference">reference</a> does not.</p></noscript>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/start.js"></script>
</body>
</html>
"""


def try_page() -> str:
    """Return the page for trying operations."""
    return _TRY.format(navigation=_NAVIGATION)


def pages_page(pages: Iterable[Page]) -> str:
    """Return the list of all pages, for an installation without the site."""
    listed = "\n".join(
        f'<tr><td><a href="/docs/{page.name}.md">{escape(page.title)}</a></td>'
        f"<td>{escape(page.summary)}</td></tr>"
        for page in pages
    )
    return _page("vedette: documentation", [f"<h1>Documentation</h1>\n<table>\n{listed}\n</table>"])


def index_page(document: dict[str, Any]) -> str:
    """Return the page that links to every operation."""
    parts = [f"<h1>Reference</h1>\n{_marked_up(document['info']['description'])}"]
    for group in document["x-tagGroups"]:
        for tag in (one for one in document["tags"] if one["name"] in group["tags"]):
            name = tag["name"]
            parts.append(f'<h2><a href="/docs/reference/{name}">{name}</a></h2>')
            parts.append(_marked_up(tag["description"]))
            parts.append("<table>")
            for path, method, operation in _of_tag(document, name):
                link = f"/docs/reference/{name}#{operation['operationId']}"
                parts.append(
                    f'<tr><td><a href="{link}">{escape(operation["summary"])}</a></td>'
                    f"<td>{_code(method.upper(), path)}</td></tr>"
                )
            parts.append("</table>")
    return _page("vedette: reference", parts)


def tag_page(document: dict[str, Any], tag: str) -> str:
    """Return the page with every operation of an existing tag, and each of their fields."""
    description = next(one["description"] for one in document["tags"] if one["name"] == tag)
    writer = _Writer(document)
    parts = [f"<h1>{tag}</h1>", _marked_up(description)]
    for path, method, operation in _of_tag(document, tag):
        parts += writer.operation(path, method, operation)
    parts += writer.objects()
    return _page(f"vedette: {tag}", parts)


def _of_tag(document: dict[str, Any], tag: str) -> Iterator[tuple[str, str, Operation]]:
    """Yield the operations of a tag, without their further paths and methods."""
    for path, method, operation in operations(document):
        if tag in operation["tags"] and "x-same-as" not in operation:
            yield path, method, operation


class _Writer:
    """Writes operations, and collects the names of their objects."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._fields = Fields(document)
        self._named: dict[str, None] = {}

    def operation(self, path: str, method: str, operation: Operation) -> Iterator[str]:
        name = operation["operationId"]
        yield f'<h2 id="{name}">{escape(operation["summary"])}</h2>'
        yield f'<p class="call">{_code(method.upper(), path)}</p>'
        others = [
            _code(other.upper(), there)
            for there, other, one in operations(self._document)
            if one.get("x-same-as") == name
        ]
        if others:
            yield f'<p class="quiet">Also {", ".join(others)}</p>'
        yield _marked_up(operation["description"])
        yield f'<p class="quiet">{_describe_credential(operation)}</p>'
        if parameters := operation.get("parameters"):
            yield "<h3>Parameters</h3>"
            yield self._table(self._parameter(one) for one in parameters)
        if body := operation.get("requestBody"):
            yield from self._bodies("Body", body.get("description", ""), body["content"])
        for status, answer in operation["responses"].items():
            if status < "400":
                yield from self._bodies(f"Answer {status}", answer["description"], answer.get("content", {}))
        yield from self._errors(operation)

    def objects(self) -> Iterator[str]:
        """Yield the collected objects, and those that they refer to."""
        done: set[str] = set()
        while waiting := [name for name in self._named if name not in done]:
            for name in waiting:
                done.add(name)
                schema = self._fields.get_schema(name)
                yield f'<h2 id="{name}">{name}</h2>'
                yield _marked_up(schema.get("description", ""))
                yield self._table(self._fields.rows(schema))

    def _parameter(self, parameter: dict[str, Any]) -> FieldRow:
        kind, objects = self._fields.kind(parameter["schema"])
        required = parameter.get("required", False)
        where = f"{kind}, in the {parameter['in']}"
        if (default := parameter["schema"].get("default")) is not None:
            where += f", default {_write_example(default)}"
        return FieldRow(parameter["name"], where, required, parameter["description"], objects)

    def _bodies(self, title: str, description: str, content: dict[str, Any]) -> Iterator[str]:
        yield f"<h3>{title}</h3>"
        if description:
            yield _marked_up(description)
        for media_type, one in content.items():
            schema = one.get("schema", {})
            kind, objects = self._fields.kind(schema)
            self._named |= dict.fromkeys(objects)
            text = schema.get("description", "") if "$ref" not in schema else ""
            linked = self._link_objects(kind, objects)
            yield f'<p class="quiet">{escape(media_type)}: {linked}. {_inline(text)}</p>'
            yield self._table(self._fields.rows(schema))
            yield from self._examples(one)

    def _examples(self, content: dict[str, Any]) -> Iterator[str]:
        examples = dict(content.get("examples", {}))
        if "example" in content:
            examples["Example"] = {"value": content["example"]}
        for name, example in examples.items():
            if "$ref" in example:
                example = self._document["components"]["examples"][example["$ref"].rpartition("/")[2]]
            text = _write_example(example["value"])
            title = escape(example.get("summary", name))
            yield f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"

    def _errors(self, operation: Operation) -> Iterator[str]:
        codes = [
            code
            for answer in operation["responses"].values()
            for code in answer.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {})
        ]
        if codes:
            listed = ", ".join(f'<a href="/errors/{one}">{one}</a> {CATALOGUE[one].status}' for one in codes)
            yield f'<h3>Errors</h3>\n<p class="quiet">{listed}</p>'

    def _table(self, rows: Iterable[FieldRow]) -> str:
        lines: list[str] = []
        for row in rows:
            self._named |= dict.fromkeys(row.objects)
            kind = self._link_objects(row.kind, row.objects)
            lines.append(
                f"<tr><td><code>{escape(row.path)}</code>{'' if row.required else ' ?'}</td><td>{kind}</td>"
                f"<td>{_inline(row.description)}</td></tr>"
            )
        head = "<tr><th>Field (? may be absent)</th><th>What it is</th><th>What it means</th></tr>"
        return "\n".join(["<table>", head, *lines, "</table>"]) if lines else ""

    def _link_objects(self, kind: str, objects: tuple[str, ...]) -> str:
        text = escape(kind)
        for name in sorted(set(objects), key=len, reverse=True):
            text = re.sub(rf"(?<![\w#>]){name}(?!\w)", f'<a href="#{name}">{name}</a>', text)
        return text


def _describe_credential(operation: Operation) -> str:
    security = operation["security"]
    if not security:
        return "Needs no credential."
    scheme, scopes = next(iter(security[0].items()))
    if scheme == "session":
        return "Needs a session."
    return f"Needs a credential with the scope {', '.join(scopes)}." if scopes else "Needs a credential."


def _page(title: str, parts: Iterable[str]) -> str:
    return _PAGE.format(title=escape(title), navigation=_NAVIGATION, content="\n".join(filter(None, parts)))


def _write_example(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _code(method: str, path: str) -> str:
    return f"<code>{method} {escape(path)}</code>"


def _marked_up(text: str) -> str:
    """Return the paragraphs, lists and code of a description as HTML."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("- "):
            items = re.split(r"\n(?=- )", block)
            listed = "".join(f"<li>{_inline(item.removeprefix('- '))}</li>" for item in items)
            blocks.append(f"<ul>{listed}</ul>")
        elif block:
            blocks.append(f"<p>{_inline(block)}</p>")
    return "\n".join(blocks)


def _inline(text: str) -> str:
    marked = re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", marked)
