"""The execution of claimed runs in a worker: its shift, its runs, their attempts, their records."""
