"""The version of the service and of its interface."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from api import versions
from api.deps import Caller, require_scope
from api.http.strict_route import StrictRoute
from models.views import View

router = APIRouter(prefix="/api/version", tags=["service"], route_class=StrictRoute)


class ServiceVersion(View):
    """The version of the service and of its interface."""

    name: str = Field(description="Always `vedette`.")
    version: str = Field(description="The version of the package that answers.")
    api_version: str = Field(description="The version of the HTTP interface, as `info.version` of OpenAPI.")


@router.get("")
async def get_version(caller: Annotated[Caller, require_scope(None)]) -> ServiceVersion:
    """Get the version of the package that answers, and of its interface."""
    return ServiceVersion(name="vedette", version=versions.PACKAGE, api_version=versions.INTERFACE)
