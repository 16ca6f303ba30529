"""Automations: workflows as users save them, their versions, and what accepting a run needs of them."""
