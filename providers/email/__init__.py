"""Sources for what is known about an e-mail address and the person behind it."""
