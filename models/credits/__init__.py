"""Credits: the ledger, the balances that it sums to, and top-ups."""
