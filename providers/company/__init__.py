"""Companies: who a name or a domain means, what registers know of it, and the people there."""
