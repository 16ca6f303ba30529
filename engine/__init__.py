"""What a run does next: pure, so that calls and the clock are whoever drives it."""
