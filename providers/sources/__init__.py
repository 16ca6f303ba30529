"""Common parts of the sources of all kinds: declaration, requests and parsing."""
