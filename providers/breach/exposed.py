"""The sorts of data that a breach exposed, which sources spell differently."""

from __future__ import annotations

from collections.abc import Iterable

from models.names import bare_name

# Other spellings, without case and punctuation → the spelling of Have I Been Pwned.
_USUAL = {
    "address": "Physical addresses",
    "birthdate": "Dates of birth",
    "dateofbirth": "Dates of birth",
    "dob": "Dates of birth",
    "email": "Email addresses",
    "emailaddress": "Email addresses",
    "emailaddresse": "Email addresses",
    "firstname": "Names",
    "gender": "Genders",
    "ip": "IP addresses",
    "ipaddress": "IP addresses",
    "lastname": "Names",
    "mailaddresses": "Email addresses",
    "name": "Names",
    "password": "Passwords",
    "passwordshistory": "Historical passwords",
    "phone": "Phone numbers",
    "phonenumber": "Phone numbers",
    "username": "Usernames",
    "zip": "Postal codes",
}


def usual(names: Iterable[str]) -> list[str]:
    """Return the usual name of each sort of data, each once."""
    plain = (name.strip().replace("_", " ") for name in names)
    return list(
        dict.fromkeys(_USUAL.get(bare_name(name), name[:1].upper() + name[1:]) for name in plain if name)
    )
