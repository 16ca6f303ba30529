"""How a worker takes forward what it has claimed: its shift, the runs in it, their attempts, their record."""
