"""What sources of all kinds share: how one is declared, asked and read."""
