"""Workflows and workers for the tests of migrations."""

from tests.automations.conftest import at_work, client, new_account, new_target, open_settings

__all__ = ["at_work", "client", "new_account", "new_target", "open_settings"]
