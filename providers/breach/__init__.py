"""Sources for the breaches that an e-mail address was found in."""
