"""Settings: the environment, read once, checked and typed.

Every name begins with `VEDETTE_`, except those that other tools share (`DATABASE_URL`, `TEMPORAL_…`). Any
secret can be given as a file by appending `_FILE` to its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from setting_types import (
    Contact,
    Hosts,
    Limit,
    ModelAddress,
    Name,
    Networks,
    PublicUrl,
    Rate,
    Rates,
    Schedule,
    SourceAddress,
    TemporalPages,
    Token,
)

PREFIX = "VEDETTE_"
_MOST_REQUESTS = 999_999_999
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PROVIDER = re.compile(r"VEDETTE_PROVIDER_([A-Z0-9]+)_(KEY|KEY_FILE|BASE_URL|ENABLED|RATE)")
# Values that can be given as a file, beside the keys of providers.
_SECRETS = (
    "DATABASE_URL", "TEMPORAL_API_KEY", f"{PREFIX}SECRET_KEY", f"{PREFIX}METRICS_TOKEN", f"{PREFIX}CHAT_KEY",
)  # fmt: skip
# Read by commands that use the service over HTTP; no settings of the service.
_OF_CLIENTS = (f"{PREFIX}URL", f"{PREFIX}API_KEY", f"{PREFIX}API_KEY_FILE")


class ExitCode(IntEnum):
    """The exit codes of the `vedette` command, by which scripts can distinguish the causes."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    SETTING = 3
    PORT_TAKEN = 4
    DATA_FOLDER = 5
    DATABASE = 6
    TEMPORAL = 7
    SECRET_KEY = 8
    DATA = 9
    SERVICE = 10
    REFUSED = 11


class StartError(Exception):
    """A start that cannot continue. The message states in one to three lines the problem and its remedy."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ProviderSettings(BaseModel, frozen=True):
    """The settings of an operator for one lookup source.

    Attributes:
        rate: its rate limit, instead of the vendor's public one; empty for no limit.
    """

    key: Token = None
    base_url: SourceAddress = None
    enabled: bool | None = None
    rate: Rates | None = None


class Settings(BaseSettings):
    """All settings, with their defaults. `vedette config` prints them with the secrets masked."""

    model_config = SettingsConfigDict(validate_by_name=True, frozen=True, extra="forbid")

    data: Path = Path("data")
    host: str = "127.0.0.1"
    port: int = Field(8000, ge=0, le=65535)
    public_url: PublicUrl = None
    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    temporal_address: str | None = Field(None, validation_alias="TEMPORAL_ADDRESS")
    temporal_namespace: Name = Field("default", validation_alias="TEMPORAL_NAMESPACE")
    temporal_tls: bool | None = Field(None, validation_alias="TEMPORAL_TLS")
    temporal_tls_ca_file: Path | None = Field(None, validation_alias="TEMPORAL_TLS_CA_FILE")
    temporal_tls_cert_file: Path | None = Field(None, validation_alias="TEMPORAL_TLS_CERT_FILE")
    temporal_tls_key_file: Path | None = Field(None, validation_alias="TEMPORAL_TLS_KEY_FILE")
    temporal_api_key: Token = Field(None, validation_alias="TEMPORAL_API_KEY")
    temporal_ui: TemporalPages = False
    api_processes: int = Field(1, ge=1, le=64)
    worker_processes: int = Field(1, ge=1, le=64)
    secret_key: SecretStr | None = None
    signup: Literal["open", "closed"] | None = None
    signup_credits: int = Field(1000, ge=0)
    credits: Literal["on", "off"] = "on"
    trusted_proxies: Networks = ()
    allowed_hosts: Hosts = ()
    session_hours: int = Field(24, ge=1, le=24 * 365)
    retention_days: int = Field(90, ge=1)
    metrics_token: Token = None
    security_contact: Contact = None
    webhook_schedule: Schedule = (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
    local_only: bool = False
    commercial: bool = False
    build_id: Name | None = None
    admit_builds: Literal["auto", "manual"] = "auto"
    execution: Literal["auto", "workflow", "shift"] = "auto"
    temporal_waits: int = Field(1000, ge=0)
    allow_private_networks: Networks = ()
    limit_ip: Limit = Rate(60, 60)
    limit_breaches: Limit = Rate(60, 60)
    limit_lookups: Limit = Rate(120, 60)
    limit_bulk: Limit = Rate(10, 60)
    limit_login: Limit = Rate(10, 60)
    limit_ingest: Limit = Rate(6000, 60)
    max_workflows: int = Field(10_000, ge=1)
    max_unfinished_runs: int = Field(100_000, ge=1)
    max_descendants: int = Field(10_000, ge=1)
    max_streams: int = Field(100, ge=1)
    max_ingest_waits: int = Field(100, ge=1)
    chat_base_url: ModelAddress = None
    chat_model: str | None = None
    chat_key: Token = None
    providers: dict[str, ProviderSettings] = Field(default_factory=dict[str, ProviderSettings])

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values only from `load`, so that a test never depends on its environment."""
        return (init_settings,)

    @property
    def address(self) -> str:
        """The root address that clients use, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")

    @property
    def published(self) -> bool:
        """Return whether clients come by a public name or through a proxy, wherever the service is bound."""
        hosts = {host.strip("[]").lower() for host in self.allowed_hosts}
        if self.public_url is not None:
            hosts.add(urlsplit(self.public_url).hostname or "")
        return bool(self.trusted_proxies) or not hosts <= _LOOPBACK

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can reach the service."""
        return self.host in _LOOPBACK and not self.published

    @property
    def chat_host(self) -> str | None:
        """The host that the assistant sends to, with its port if one is given; None if no model is set."""
        return None if self.chat_base_url is None else urlsplit(self.chat_base_url).netloc

    @property
    def signup_open(self) -> bool:
        """Return whether strangers may register: open on loopback unless set, closed elsewhere unless set."""
        return self.signup == "open" or (self.signup is None and self.loopback)

    @property
    def charges(self) -> bool:
        """Return whether work costs credits."""
        return self.credits == "on"

    @property
    def limit_login_account(self) -> Limit:
        """The most failures of one unfamiliar address at one account; other limits use the same rate."""
        return self._slower_login(1)

    @property
    def limit_login_anywhere(self) -> Limit:
        """The most failures at one account of all unfamiliar addresses together."""
        return self._slower_login(10)

    def _slower_login(self, times: int) -> Rate | None:
        rate = self.limit_login
        return rate and Rate(min(times * rate.requests, _MOST_REQUESTS), 10 * rate.seconds)

    def provider(self, name: str) -> ProviderSettings:
        """Return the operator's settings for the lookup source `name`."""
        return self.providers.get(name, ProviderSettings())


def names() -> dict[str, str]:
    """Return environment name → field, of all settings except those of providers."""
    fields = {name: field for name, field in Settings.model_fields.items() if name != "providers"}
    return {str(field.validation_alias or f"{PREFIX}{name.upper()}"): name for name, field in fields.items()}


def _secret_files(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the content of the files named by `…_FILE`, under the names without `_FILE`."""
    values: dict[str, str] = {}
    for name, path in environ.items():
        target = name.removesuffix("_FILE")
        if name.endswith("_FILE") and path and (target in _SECRETS or _PROVIDER.fullmatch(name)):
            try:
                values[target] = Path(path).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise StartError(f"{name}: cannot read {path}: {error.strerror}", ExitCode.SETTING) from None
    return values


def with_secrets_of_files(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with `…_FILE` names replaced by the files' contents.

    A process that may not read the files can then use it.

    Raises:
        StartError: a file cannot be read.
    """
    secrets = _secret_files(environ)
    return {
        name: value for name, value in environ.items() if name.removesuffix("_FILE") not in secrets
    } | secrets


def _providers(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    providers: dict[str, dict[str, str]] = {}
    for name, value in environ.items():
        match = _PROVIDER.fullmatch(name)
        if match and value and match[2] != "KEY_FILE":
            providers.setdefault(match[1].lower(), {})[match[2].lower()] = value
    return providers


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment.

    Raises:
        StartError: names every invalid setting, one a line.
    """
    environ = os.environ if environ is None else environ
    environ = {**environ, **_secret_files(environ)}
    values: dict[str, Any] = {
        field: environ[name] for name, field in names().items() if environ.get(name, "") != ""
    }
    try:
        settings = Settings(**values, providers=_providers(environ))  # pyright: ignore[reportArgumentType]
    except ValidationError as error:
        lines = [_complaint(item["loc"], item["msg"]) for item in error.errors()]
        raise StartError("\n".join(lines), ExitCode.SETTING) from None
    if complaint := _temporal_complaint(settings) or _chat_complaint(settings):
        raise StartError(complaint, ExitCode.SETTING)
    return settings


def _temporal_complaint(settings: Settings) -> str | None:
    """Return a message if the settings of the connection to Temporal contradict each other."""
    known = ("temporal_tls_ca_file", "temporal_tls_cert_file", "temporal_tls_key_file")
    if isinstance(settings.temporal_ui, str) and settings.temporal_address is None:
        return (
            f"{PREFIX}TEMPORAL_UI: an address is for a server of your own. Set TEMPORAL_ADDRESS=<host:port>"
            " too, or give 1 for the pages of the built-in one."
        )
    files = [field.upper() for field in known if getattr(settings, field) is not None]
    given = [*files, *(["TEMPORAL_API_KEY"] if settings.temporal_api_key else [])]
    if (given or settings.temporal_tls) and settings.temporal_address is None:
        name = given[0] if given else "TEMPORAL_TLS"
        return f"{name}: is for a server of your own. Set TEMPORAL_ADDRESS=<host:port> too, or unset {name}."
    if files and settings.temporal_tls is False:
        return f"{files[0]}: TEMPORAL_TLS is off. Unset one of the two."
    if (settings.temporal_tls_cert_file is None) != (settings.temporal_tls_key_file is None):
        return "TEMPORAL_TLS_CERT_FILE and TEMPORAL_TLS_KEY_FILE belong together: set both or neither."
    return None


def _chat_complaint(settings: Settings) -> str | None:
    """Return a message if the settings of the assistant's model lack one another."""
    base, model = f"{PREFIX}CHAT_BASE_URL", f"{PREFIX}CHAT_MODEL"
    if settings.chat_base_url is not None and settings.chat_model is None:
        return f"{base} needs {model} too: set it to the name that the server has for the model."
    if settings.chat_base_url is None and (settings.chat_model or settings.chat_key):
        given = model if settings.chat_model else f"{PREFIX}CHAT_KEY"
        return f"{given} needs {base} too: set it to an address such as http://127.0.0.1:11434/v1."
    return None


def _complaint(location: tuple[int | str, ...], message: str) -> str:
    field = str(location[0])
    if field == "providers" and len(location) > 2:
        name = f"{PREFIX}PROVIDER_{str(location[1]).upper()}_{str(location[2]).upper()}"
    else:
        name = next((name for name, known in names().items() if known == field), field)
    return f"{name}: {message.removeprefix('Value error, ')}"


def unknown_names(environ: Mapping[str, str], providers: Collection[str]) -> dict[str, str | None]:
    """Return the `VEDETTE_…` names that nothing reads, most likely typing errors, with the nearest known.

    Args:
        environ: the environment.
        providers: the names that `VEDETTE_PROVIDER_<NAME>_…` may contain, in lower case.
    """
    known = {*names(), *_OF_CLIENTS, *(f"{name}_FILE" for name in _SECRETS)}
    own = [name.removeprefix(PREFIX) for name in known if name.startswith(PREFIX)]
    unknown: dict[str, str | None] = {}
    for name in sorted(environ):
        provider = _PROVIDER.fullmatch(name)
        if provider and provider[1].lower() not in providers:
            near = get_close_matches(provider[1], [known.upper() for known in providers], n=1)
            unknown[name] = f"{PREFIX}PROVIDER_{near[0]}_{provider[2]}" if near else None
        elif name.startswith(PREFIX) and not provider and name not in known:
            near = get_close_matches(name.removeprefix(PREFIX), own, n=1)
            unknown[name] = f"{PREFIX}{near[0]}" if near else None
    return unknown
