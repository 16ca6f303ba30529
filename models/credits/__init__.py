"""Credits: the ledger, the balances that are its sums, and top-ups."""
