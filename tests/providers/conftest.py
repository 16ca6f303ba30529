"""Name servers on loopback."""

from tests.name_servers import name_server

__all__ = ["name_server"]
