"""Dark-web search: mentions of an e-mail address, a domain, an IP address or any text."""
