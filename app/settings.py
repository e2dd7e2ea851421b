"""What can be set from outside: `PURLIN_HOME`, `PURLIN_PORT` and so on, read when a `Settings` is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from index.encoder import RELEASED, available_cpus
from index.errors import InvalidInput
from index.qa.reader import RELEASED_READER

_PROTOCOL = "http/protobuf"


def spans_wanted(environ: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables ask for spans. Raises InvalidInput for a protocol that is not spoken here."""
    endpoint = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if (
        not endpoint
        or disabled
        or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    ):
        return False
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next((name for name in names if environ.get(name)), names[0])
    if environ.get(name, _PROTOCOL) not in ("", _PROTOCOL):
        raise InvalidInput(
            f"{name} is {environ[name][:40]!r}; spans are sent by {_PROTOCOL}: set it so, or leave it out."
        )
    return True


class Settings(BaseSettings):
    """The server's settings. Limits of the API itself are fixed and stand in its OpenAPI document."""

    model_config = SettingsConfigDict(
        env_prefix="PURLIN_", env_ignore_empty=True, hide_input_in_errors=True
    )

    home: Path = Path("var")
    encoder: Path = RELEASED
    reader: Path = RELEASED_READER
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    log: Literal["plain", "json"] = Field(
        default="plain", description="json has a line for each request, too"
    )
    keys: SecretStr = Field(
        default=SecretStr(""), description="who may do what, see `app.access.parse_keys`"
    )
    keys_file: Path | None = Field(default=None, description="the same, in a file")
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="origins, between commas, whose pages may call the API from a browser",
    )
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="names, between commas, that lead to a server without keys; * is any",
    )
    threads: int = Field(
        default_factory=lambda: 2 * available_cpus(),
        ge=1,
        le=256,
        description="requests worked on at once; more wait",
    )
    queue: int = Field(
        default_factory=lambda: 2 * available_cpus(),
        ge=0,
        le=10_000,
        description="requests that wait; more are refused",
    )
    queue_timeout_s: float = Field(
        default=2.0, gt=0, description="that a request waits for its turn at most"
    )
    max_body_bytes: int = Field(default=16 * 2**20, ge=1024)
    body_timeout_s: float = Field(default=60.0, gt=0, description="for a request's body to arrive")
    open_timeout_s: float = Field(
        default=10.0, ge=0, description="that a request waits for a corpus being opened"
    )
    shutdown_timeout_s: int = Field(default=30, ge=0, description="for running requests to finish")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """What is `given`, and the rest from the environment. Raises InvalidInput naming the variable."""
        try:
            return cls(**given)
        except ValidationError as error:
            name, rule = str(error.errors()[0]["loc"][0]), error.errors()[0]["msg"]
            raise InvalidInput(
                f"PURLIN_{name.upper()} {rule.replace('Input should', 'must')}.", field=name
            ) from None

    @field_validator("cors_origins", "hosts", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        return (
            tuple(filter(None, given.replace(",", " ").split()))
            if isinstance(given, str)
            else given
        )
