"""One module a noun: parse, authorise, answer."""
