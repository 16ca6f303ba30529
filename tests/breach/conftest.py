"""The API with its sources about people on loopback."""

from tests.email.sources import people_api, person, sources

__all__ = ["people_api", "person", "sources"]
