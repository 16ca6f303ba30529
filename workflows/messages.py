"""What goes in and out of workflows and activities: ids and times, and the names by which they are called."""

AUTOMATION_BATCH = "AutomationBatch"
ADVANCE_RUNS, QUEUE_DUE = "advance_runs", "queue_due"
REFRESH_DATASETS, PURGE_LOOKUPS = "refresh_datasets", "purge_lookups"
TEND_HISTORY = "tend_history"
WAKING_QUEUE = "vedette-waking"
"""The task queue of `queue_due`: it is never behind the work that it wakes."""
