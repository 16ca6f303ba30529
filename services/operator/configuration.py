"""The settings in force, for `vedette config`, and the variable names that look like typing errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from providers.registry import accounts, names_in_settings
from services.operator.connections import mask_password
from settings import PREFIX, Rate, Settings, names, unknown_names


@dataclass(frozen=True)
class Row:
    """One setting: its name in the environment, its value as text, and the origin of the value."""

    name: str
    value: str | None
    source: str


def _text(value: object) -> str | None:
    if isinstance(value, SecretStr):
        url = value.get_secret_value()
        return mask_password(url) if "://" in url else "***"
    if isinstance(value, Rate):
        return f"{value.requests}/{value.seconds}"
    if isinstance(value, tuple):
        return ",".join(str(_text(part)) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, bool):
        return "1" if value else "0"
    return None if value is None else str(value)


def effective(settings: Settings, environ: Mapping[str, str] | None = None) -> list[Row]:
    """Return every setting with its value in force, secrets masked."""
    environ = os.environ if environ is None else environ

    def row(name: str, value: object) -> Row:
        set_by = next((known for known in (f"{name}_FILE", name) if environ.get(known)), None)
        text = _text(value)
        if name.startswith(f"{PREFIX}LIMIT_") and value is None:
            text = "off"
        return Row(name, text, set_by or "default")

    rows = [row(name, getattr(settings, field)) for name, field in names().items()]
    for provider, values in sorted(settings.providers.items()):
        for field in ("key", "base_url", "enabled", "rate"):
            if (value := getattr(values, field)) is not None:
                value = "off" if value == () else value
                rows.append(row(f"{PREFIX}PROVIDER_{provider.upper()}_{field.upper()}", value))
    return rows


def warnings(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each `VEDETTE_…` variable that is not read, with the name that was probably meant."""
    environ = os.environ if environ is None else environ
    unknown = unknown_names(environ, names_in_settings())
    rates = {
        f"{PREFIX}PROVIDER_{name.upper()}_RATE": f"{PREFIX}PROVIDER_{account.upper()}_RATE"
        for name, account in accounts().items()
    }
    return [
        f"{name} is ignored: {rates[name]} is for all sources that are asked with one key."
        for name in sorted(rates.keys() & environ.keys())
    ] + [
        f"There is no setting {name}; it is ignored." + (f" Did you mean {near}?" if near else "")
        for name, near in unknown.items()
    ]
