"""Automations: workflows as users save them, their versions, and the data that accepting a run needs."""
