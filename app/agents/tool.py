"""A tool for agents: its arguments, what it says of itself, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from purlin.app.agents.backend import Backend
from purlin.app.agents.budget import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, Result
from purlin.app.errors import explain
from purlin.app.fields import MAX_VALUE_CHARS, CorpusName, Strict
from purlin.index.errors import InvalidInput

MAX_HITS = 20
MAX_ID_CHARS = 2_000
MAX_SHOWN = 200  # characters of a title, path or link

CorpusArgument = CorpusName | None
# One character less than a value may have: as a beginning, a path is one longer.
PathArgument = Annotated[str, Field(max_length=MAX_VALUE_CHARS - 1)]
Budget = Field(
    default=DEFAULT_TOKENS,
    ge=MIN_TOKENS,
    le=MAX_TOKENS,
    description="The result has at most about so many tokens.",
)
K = Field(default=5, ge=1, le=MAX_HITS, description="Hits at most.")
DocumentId = Field(
    min_length=1,
    max_length=MAX_ID_CHARS,
    description="A hit's path:line, or a document's id.",
    examples=["src/app.py:120", "src/app.py::App.run"],
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `scope` is what a key needs; `description` says when to use it and when not."""

    name: str
    title: str
    scope: str
    description: str
    arguments: type[Strict]
    call: Callable[[Any, Backend], Result]

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, without titles and null defaults, which only cost tokens."""
        schema = self.arguments.model_json_schema(schema_generator=_Untitled)
        for key in ("title", "description"):
            schema.pop(key, None)

        for details in schema["properties"].values():
            if details.get("default", 0) is None:
                del details["default"]
        return schema

    def run(self, arguments: Mapping[str, Any], backend: Backend) -> Result:
        """Check the arguments and call the tool. Raises PurlinError."""
        try:
            checked = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            # Locations begin with the part of the request, as FastAPI has them.
            errors = [{**details, "loc": ("body", *details["loc"])} for details in error.errors()]
            raise InvalidInput(explain(errors)[0]) from None
        return self.call(checked, backend)


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> Any:
        """Leave null out: an agent that has no value leaves the argument out."""
        return self.generate_inner(schema["schema"])
