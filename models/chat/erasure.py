"""The erasure of a person from conversations: those that name the person are deleted."""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from database import Connection
from models.chat import sealed_json
from sealing import Keyring, UnsealError

_BATCH = 100
_PUNCTUATION = str.maketrans("", "", " ().-/")

_TEXTS: LiteralString = """
select 0 as number, '' as kind, id::text as place, sealed from chat_conversations
where account_id = %(account_id)s and id = %(id)s
union all
select 0, '', id::text, sealed from chat_messages
where account_id = %(account_id)s and conversation_id = %(id)s
union all
select e.number, e.kind, e.message_id || '/' || e.number, e.sealed from chat_events e
join chat_messages m on m.account_id = e.account_id and m.id = e.message_id
where m.account_id = %(account_id)s and m.conversation_id = %(id)s
order by number
"""


async def erase(connection: Connection, keyring: Keyring, identifier: str) -> int:
    """Delete the conversations of all accounts that name a person; return their number.

    Texts are sealed, so each is opened and read: there are at most those of 30 days.

    Args:
        connection: inside a transaction.
        keyring: opens the texts.
        identifier: an e-mail address in lower case, or a phone number as `+4930123`.
    """
    after, erased = (UUID(int=0), UUID(int=0)), 0
    while True:
        cursor = await connection.execute(
            "select account_id, id from chat_conversations where (account_id, id) > (%s, %s)"
            " order by account_id, id limit %s",
            (*after, _BATCH),
        )
        rows = await cursor.fetchall()
        for row in rows:
            if await _names(connection, keyring, row["account_id"], row["id"], identifier):
                await connection.execute(
                    "delete from chat_conversations where account_id = %s and id = %s",
                    (row["account_id"], row["id"]),
                )
                erased += 1
        if len(rows) < _BATCH:
            return erased
        after = (rows[-1]["account_id"], rows[-1]["id"])


async def _names(
    connection: Connection, keyring: Keyring, account_id: UUID, id: UUID, identifier: str
) -> bool:
    cursor = await connection.execute(_TEXTS, {"account_id": account_id, "id": id})
    texts: list[str] = []
    for row in await cursor.fetchall():
        try:
            value = sealed_json.unseal(keyring, account_id, row["place"], row["sealed"])
        except UnsealError:
            continue  # nobody can read it any more
        # An answer that was cut off is there in pieces alone: a name may go on in the next one.
        texts.append(value["text"] if row["kind"] == "text" else f"\n{value}\n")
    text = "".join(texts).lower()
    return identifier in text or (
        identifier.startswith("+") and identifier[1:] in text.translate(_PUNCTUATION)
    )
