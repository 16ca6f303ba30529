"""`vedette migrate`."""

from __future__ import annotations

from cli.connecting import connected_settings, database_url
from cli.printing import Json, print_data


def migrate(as_json: Json = False) -> None:
    """Bring the database to the newest schema."""
    from embedded import connections
    from migrations.upgrade import head

    connections.migrate(database_url(connected_settings()))
    print_data({"revision": head()}, f"The database is at {head()}.", as_json)
