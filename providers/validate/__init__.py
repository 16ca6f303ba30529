"""Whether an e-mail address can receive mail, as far as that can be told without writing to it."""
