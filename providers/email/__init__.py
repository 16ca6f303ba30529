"""Sources about e-mail addresses and the people behind them."""
