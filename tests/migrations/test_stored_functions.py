"""The folder `sql/` has the text of every function that the database stores."""

import re
from pathlib import Path

from database import Database

SQL = Path(__file__).resolve().parents[2] / "sql"
BODY = re.compile(r"as \$(\w*)\$(.*)\$\1\$", re.DOTALL)
STORED = """
    select proname, prosrc from pg_proc join pg_namespace on pg_namespace.oid = pronamespace
    where nspname = 'public' and not exists (
        select from pg_depend where objid = pg_proc.oid and deptype = 'e')
"""


async def test_each_stored_function_is_the_text_of_its_file(database: Database) -> None:
    async with database.connection() as connection:
        rows = await (await connection.execute(STORED)).fetchall()
    stored: dict[str, str] = {row["proname"]: row["prosrc"] for row in rows}
    texts = {path.stem: path.read_text("utf-8") for path in sorted(SQL.glob("*.sql"))}
    # A shim has taken the place of the function whose calls it passes on.
    for name in [name for name in texts if name.endswith(".shim")]:
        texts[name.removesuffix(".shim")] = texts.pop(name)
    assert stored and not set(stored) - set(texts), "these functions have no file in sql/"
    for name, body in stored.items():
        found = BODY.search(texts[name])
        assert found is not None and found[2].strip() == body.strip(), f"{name} differs from its file"
    # What no database has is the former text of what one has: a migration that goes back reads it.
    former = {name.rpartition("_")[0] for name in set(texts) - set(stored)}
    assert former <= {name.rpartition("_")[0] for name in stored}
