"""Links that sign a browser in, made at the command line."""

from __future__ import annotations

from dataclasses import dataclass

from models import audit
from models.accounts import accounts, sign_in_links
from models.audit import Target
from models.errors import FieldError, Invalid
from services.operator.administration import find_account, open_database, operator


@dataclass(frozen=True)
class MadeLink:
    """A link that is good once, for so many seconds."""

    link: str
    account: str
    seconds: int


async def make_link(database_url: str, address: str, email: str | None) -> MadeLink:
    """Make a link that signs a browser in once.

    Args:
        database_url: of the service.
        address: the service's address as browsers use it.
        email: whose account; None for the first one.

    Raises:
        Invalid: there is no such account.
    """
    async with open_database(database_url) as database, database.transaction() as connection:
        account = await find_account(connection, email) if email else await accounts.find_first(connection)
        if account is None:
            raise Invalid([FieldError("/account", "not_found", "There is no account yet.")])
        token = await sign_in_links.make(connection, account.id)
        await audit.record(
            connection, operator(account.id), "sign_in_link.made", Target("account", account.id)
        )
    return MadeLink(f"{address}/app/sign-in/{token}", account.email, sign_in_links.SECONDS)
