"""The API with its sources about people on loopback, and name servers."""

from tests.email.sources import people_api, person, sources
from tests.name_servers import name_server

__all__ = ["name_server", "people_api", "person", "sources"]
