"""The base of what the API shows."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """An answer that always has all of its fields: OpenAPI calls those with a default required too."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)
