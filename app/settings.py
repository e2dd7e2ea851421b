"""What can be set from outside: `PURLIN_HOME`, `PURLIN_PORT` and so on, read when a `Settings` is made."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from index.encoder import RELEASED


class Settings(BaseSettings):
    """The server's settings. Limits of the API itself are fixed and stand in its OpenAPI document."""

    model_config = SettingsConfigDict(env_prefix="PURLIN_")

    home: Path = Path("var")
    encoder: Path = RELEASED
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    threads: int = Field(default=16, ge=1, le=256, description="requests worked on at once; more wait")
    max_body_bytes: int = Field(default=16 * 2**20, ge=1024)
    body_timeout_s: float = Field(default=60.0, gt=0, description="for a request's body to arrive")
    open_timeout_s: float = Field(default=10.0, ge=0, description="that a request waits for a corpus being opened")
    shutdown_timeout_s: int = Field(default=30, ge=0, description="for running requests to finish")
