"""Definitions that are stored without a check."""

from __future__ import annotations

from language.definition import Definition, Status
from models.automations.definitions import CheckedDefinition, find_data_reads


def checked(definition: Definition, status: Status) -> CheckedDefinition:
    return CheckedDefinition(definition, status, find_data_reads(definition))
