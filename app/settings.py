"""The server's settings, from the environment: `PURLIN_HOME`, `PURLIN_PORT` and so on."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from purlin.app.keys import Keyring
from purlin.app.shared import MAX_WORKERS
from purlin.index.cpus import available_cpus
from purlin.index.encoder import default_encoder, encoder_directory
from purlin.index.errors import InvalidInput
from purlin.index.qa.reader import RELEASED_READER
from purlin.index.reranker import RELEASED_RERANKER

_PROTOCOL = "http/protobuf"


def spans_requested(environ: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables ask for spans.

    Raises InvalidInput if they choose a protocol other than http/protobuf.
    """
    endpoint = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    no_exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    if not endpoint or disabled or no_exporter:
        return False

    # The variable for traces overrides the general one, as OpenTelemetry specifies.
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next((name for name in names if environ.get(name)), names[0])
    if environ.get(name, _PROTOCOL) not in ("", _PROTOCOL):
        raise InvalidInput(
            f"{name} is {environ[name][:40]!r}; spans are sent by {_PROTOCOL}: "
            "set it to that, or unset it."
        )
    return True


class Settings(BaseSettings):
    """The server's settings.

    The limits of the API itself are fixed; its OpenAPI document lists them.
    """

    model_config = SettingsConfigDict(
        env_prefix="PURLIN_", env_ignore_empty=True, hide_input_in_errors=True
    )

    home: Path = Path("var")
    encoder: Path = Field(
        default_factory=default_encoder,
        description="an encoder directory, or `ensemble`, `transformer`, `static` or `labels` for the released ones",
    )
    reader: Path = RELEASED_READER
    reranker: Path = Field(
        default=RELEASED_RERANKER, description="a directory made by `purlin train ranker`"
    )
    demo: bool = Field(
        default=False, description="build the demo corpora that are missing, while serving"
    )
    milvus: str = Field(
        default="",
        description="address of a Milvus: its corpora are served, too, and followed",
    )
    watch: bool = Field(
        default=False, description="build corpora again when their sources change, while serving"
    )
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    workers: int = Field(
        default=1,
        ge=1,
        le=MAX_WORKERS,
        description="processes that answer requests; `auto` is one per CPU",
    )
    log: Literal["plain", "json"] = Field(
        default="plain", description="json also logs one line per request"
    )
    keys: SecretStr = Field(
        default=SecretStr(""),
        description="API keys and their scopes, see `purlin.app.keys.parse_keys`",
    )
    keys_file: Path | None = Field(
        default=None, description="a file with the same content as `keys`"
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="comma-separated origins whose pages may call the API from a browser",
    )
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="comma-separated host names that a server without keys answers to; * is any",
    )
    proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="comma-separated addresses and networks of the proxies whose X-Forwarded-For is believed",
    )
    threads: int = Field(
        default_factory=lambda: 2 * available_cpus(),
        ge=1,
        le=256,
        description="requests processed at once; more wait",
    )
    queue: int = Field(
        default_factory=lambda: 2 * available_cpus(),
        ge=0,
        le=10_000,
        description="requests that may wait; more are refused",
    )
    queue_timeout_s: float = Field(
        default=2.0, gt=0, description="longest time that a request waits for its turn"
    )
    max_body_bytes: int = Field(default=16 * 2**20, ge=1024)
    body_timeout_s: float = Field(
        default=60.0, gt=0, description="time for the body of a request to arrive"
    )
    open_timeout_s: float = Field(
        default=10.0,
        ge=0,
        description="time that a request waits for a corpus that is being opened",
    )
    shutdown_timeout_s: int = Field(
        default=30, ge=0, description="time for running requests to finish"
    )

    @classmethod
    def read(cls, overrides: Mapping[str, Any]) -> Self:
        """Return the settings of the environment with `overrides`.

        Raises InvalidInput naming the variable.
        """
        try:
            return cls(**overrides)
        except ValidationError as error:
            first_error = error.errors()[0]
            name = str(first_error["loc"][0])
            rule = first_error["msg"].replace("Input should", "must")
            raise InvalidInput(f"PURLIN_{name.upper()} {rule}.", field=name) from None

    def keyring(self) -> Keyring:
        """Read the keys. Raises InvalidInput."""
        return Keyring(self.keys.get_secret_value(), self.keys_file)

    @field_validator("workers", mode="before")
    @classmethod
    def _automatic(cls, value: Any) -> Any:
        return min(available_cpus(), MAX_WORKERS) if value == "auto" else value

    @field_validator("encoder")
    @classmethod
    def _named(cls, value: Path) -> Path:
        return encoder_directory(str(value))

    @field_validator("cors_origins", "hosts", "proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(filter(None, value.replace(",", " ").split()))

    @field_validator("proxies")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            try:
                ip_network(address)
            except ValueError as error:
                raise PydanticCustomError(
                    "proxies", "must be addresses or networks: {error}", {"error": str(error)}
                ) from None
        return value
