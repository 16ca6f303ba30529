"""Role accounts: addresses of a function and not of a person, such as `sales@` or `postmaster@`.

The names are those of RFC 2142, and those that businesses commonly use.
"""

from __future__ import annotations

from datetime import date

from providers.base import Evidence, Fields, LocalSource, Query, Spec
from providers.installed import Datasets

_NAMES = frozenset(
    # RFC 2142
    "info marketing sales support abuse noc security postmaster hostmaster usenet news webmaster www uucp "
    "ftp "
    # common
    "accounting accounts admin administrator billing board careers compliance contact customercare "
    "customerservice datenschutz dev devnull devops dpo editor editorial enquiries events feedback "
    "finance hello help helpdesk hr inquiries investors invoice invoices it jobs kontakt legal list mail "
    "mailer-daemon management media newsletter no-reply nobody noreply office operations orders partners "
    "payments press privacy purchasing recruiting recruitment registrar reservations root sales-team "
    "secretary service services shop staff sysadmin tech team webadmin".split()
)


def find(query: Query, datasets: Datasets) -> Fields:
    """Compare the part before the @, without a tag after a plus. Another name may be a function's too."""
    return {"is_role_account": True} if query.value.local.partition("+")[0] in _NAMES else {}


SOURCE = LocalSource(
    Spec(
        name="roles",
        kind="email",
        fields=frozenset({"is_role_account"}),
        licence="public domain",
        attribution="RFC 2142, https://www.rfc-editor.org/rfc/rfc2142",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc2142", date(2026, 11, 22)),
    ),
    find,
)
