"""Every fenced block of every page does what it says.

```sh, ```python, ```js   are run: to each language the blocks of a page are one program, in the page's order
```json answer            is compared with what the blocks just above wrote; `…` stands for what is left out
```text output            its lines are among those that the blocks just above wrote
```json POST /api/lists   is sent, and has to be accepted
```json tool lookup_ip    is the arguments of a tool at /mcp, which is called
```json Problem           is an instance of this schema of /openapi.json
```json, ```yaml          are workflows, steps or triggers without a fault
```mermaid                is drawn from the code: see test_diagrams.py

A block that is refused fails, unless the answer shown below it has the error's `code`. Blocks begin from
VEDETTE_URL and VEDETTE_API_KEY, in a folder that looks like a checkout, with an account of their own a page.
What cannot be run stands in exceptions.py.
"""

from __future__ import annotations

import re

import pytest

from tests.documentation import exceptions, pages
from tests.documentation.pages import Block
from tests.documentation.programs import BlockFailed
from tests.documentation.reader import Reader

BLOCKS = {page: pages.read(page) for page in pages.PAGES}
_RUN_HERE = [page for page, found in BLOCKS.items() if found and page not in exceptions.RUN_ELSEWHERE]


@pytest.mark.long
@pytest.mark.node
@pytest.mark.parametrize("page", _RUN_HERE)
async def test_every_block_of_the_page_does_what_it_says(page: str, reader: Reader) -> None:
    await reader.read(BLOCKS[page])
    if reader.skipped:
        pytest.skip(f"the others are true; some were not run: {reader.skipped}")


def test_every_exception_is_of_a_block_that_there_is() -> None:
    keys = [block.key for found in BLOCKS.values() for block in found]
    assert set(exceptions.NOT_RUN) <= set(keys)
    assert set(exceptions.RUN_ELSEWHERE) <= BLOCKS.keys()
    assert set(exceptions.SHELL_NOT_RUN) <= {page for page, found in BLOCKS.items() if found}
    assert all(keys.count(key) == 1 for key in exceptions.NOT_RUN), "two blocks begin alike"


def test_every_command_that_sets_up_is_on_a_page() -> None:
    lines = {
        re.sub(r"\s+#\s.*$", "", line).strip()
        for found in BLOCKS.values()
        for block in found
        if block.language == "sh"
        for line in block.text.splitlines()
    }
    assert exceptions.SETTING_UP.keys() <= lines


def page(text: str) -> list[Block]:
    return pages.blocks("page.md", text)


TRUE = {
    "a program goes on in the next block": "```sh\na=1\n```\n\n```sh\ntest $a = 1\n```",
    "so does one of Python": "```python\na = 1\n```\ntext\n```python\nassert a == 1\n```",
    "and one of JavaScript":
        "```js\nconst a = await 1;\n```\n```sh\ntrue\n```\n```js\nif (a !== 1) throw new Error();\n```",
    "an answer": "```sh\necho '{\"a\": 1, \"b\": 2}'\n```\n```json answer\n{\"a\": 1}\n```",
    "an answer of one of three languages":
        "```python\nprint('hello')\n```\n```js\nconsole.log('[1]')\n```\n```json answer\n[1]\n```",
    "the lines of an output": "```sh\nseq 9\n```\n```text output\n1\n…\n9\n```",
    "the refusal that is shown":
        '```sh\ncurl -s "$VEDETTE_URL/api/credits"\n```\n```json answer\n{"code": "not_authenticated"}\n```',
    "a body that is accepted": '```json POST /api/agent/ip\n{"ip": "8.8.8.8"}\n```',
    "a tool that answers":
        '```json tool lookup_ip\n{"ip": "8.8.8.8"}\n```\n```json answer\n{"ip_address": "8.8.8.8"}\n```',
    "an instance of a schema": '```json FieldProblem\n{"pointer": "/ip", "code": "a", "message": "b"}\n```',
    "a workflow in YAML":
        "```yaml\nname: example\nsteps:\n  - {id: a, type: delay, config: {seconds: 1}}\n```",
    "a trigger": '```json\n{"type": "manual"}\n```',
}  # fmt: skip
FALSE = {
    "a command that fails": "```sh\nfalse\ntrue\n```",
    "a variable that is not set": "```sh\necho $NOWHERE\n```",
    "a placeholder": "```sh\nRUN=…\n```",
    "a Python error": "```python\n1 / 0\n```",
    "a JavaScript error": "```js\nnull.x\n```",
    "a promise that is rejected": "```js\nawait Promise.reject(new Error())\n```",
    "a request that is refused": '```sh\ncurl -s "$VEDETTE_URL/api/credits"\n```',
    "another answer": "```sh\necho '{\"a\": 1}'\n```\n```json answer\n{\"a\": 2}\n```",
    "an answer with a member that there is not": "```sh\necho '{}'\n```\n```json answer\n{\"a\": null}\n```",
    "an answer of nothing": "```json answer\n{}\n```",
    "a line that was not written": "```sh\nseq 9\n```\n```text output\n10\n```",
    "a body that is refused": '```json POST /api/agent/ip\n{"ip": "nonsense"}\n```',
    "a tool that is refused": '```json tool lookup_ip\n{"ip": "nonsense"}\n```',
    "a tool that there is not": "```json tool nothing\n{}\n```",
    "another schema": '```json FieldProblem\n{}\n```',
    "an unknown schema": '```json Nothing\n{}\n```',
    "a workflow with a fault": '```json\n{"name": "example", "steps": [{"id": "a", "type": "delay"}]}\n```',
    "JSON that is neither": '```json\n{"a": 1}\n```',
    "no JSON": "```json\n{\n```",
    "an unknown language": "```ruby\nputs 1\n```",
    "no language": "```\nputs 1\n```",
    "an unknown role": "```sh skip\ntrue\n```",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.node
@pytest.mark.parametrize("text", TRUE.values(), ids=TRUE)
async def test_a_page_that_is_true_passes(text: str, reader: Reader) -> None:
    await reader.read(page(text))


@pytest.mark.long
@pytest.mark.node
@pytest.mark.parametrize("text", FALSE.values(), ids=FALSE)
async def test_a_page_that_is_false_fails(text: str, reader: Reader) -> None:
    with pytest.raises(BlockFailed, match=r"page\.md:\d+"):
        await reader.read(page(text))


def test_a_block_without_an_end_is_an_error() -> None:
    with pytest.raises(pages.PageError, match=r"page\.md:2: the block has no end"):
        page("text\n```sh\ntrue\n")
