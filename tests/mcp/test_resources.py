"""The documentation as resources; and nothing is offered that there is none of."""

from __future__ import annotations

import json

import pytest
from mcp.types import TextResourceContents

from tests.api_server import Api, Person
from tests.mcp.clients import MODES, connected


@pytest.mark.parametrize("mode", MODES)
async def test_each_page_of_the_documentation_is_a_resource(api: Api, person: Person, mode: str) -> None:
    async with connected(api.url, person.secret, mode) as client:
        listed = (await client.list_resources()).resources
        assert {"vedette://docs/workflows", "vedette://docs/mcp"} <= {one.uri for one in listed}
        for one in listed:
            assert one.title and one.description, one.uri
            [content] = (await client.read_resource(one.uri)).contents
            assert isinstance(content, TextResourceContents) and content.mime_type == one.mime_type
            if one.mime_type == "text/markdown":
                assert content.text == (await api.http.get(f"/docs/{one.name}.md")).text
            else:
                assert json.loads(content.text)["title"] == "vedette workflow"


@pytest.mark.parametrize(
    "uri", ["vedette://docs/nowhere", "vedette://docs/../settings", "file:///etc/passwd"]
)
async def test_there_are_no_other_resources(api: Api, person: Person, uri: str) -> None:
    async with connected(api.url, person.secret) as client:
        with pytest.raises(Exception, match="Unknown resource"):
            await client.read_resource(uri)


@pytest.mark.parametrize("mode", MODES)
async def test_prompts_are_not_offered_as_there_are_none(api: Api, person: Person, mode: str) -> None:
    async with connected(api.url, person.secret, mode) as client:
        offered = client.server_capabilities
        assert offered is not None and offered.prompts is None
        assert offered.tools is not None and offered.resources is not None
