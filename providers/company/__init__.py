"""Companies: the company that a name or domain means, its register entries, and its people."""
