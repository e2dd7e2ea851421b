"""Parses the JSON that clients send, and says what is wrong with it. Imports no web framework."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from purlin.app.errors import MAX_QUOTED_CHARS, NotJson
from purlin.index.errors import InvalidInput


def parsed(body: bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a body. Raises NotJson, and InvalidInput for a key that occurs twice.

    `parse_constant` turns NaN and Infinity, which Python accepts in JSON, into values.
    """
    try:
        return json.loads(body, object_pairs_hook=_object, parse_constant=parse_constant)
    except json.JSONDecodeError as error:
        raise NotJson(f"The body is not JSON: {error.msg} at character {error.pos}.") from None
    except UnicodeDecodeError as error:
        raise NotJson(
            f"The body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}. Send it in UTF-8."
        ) from None
    except RecursionError:
        raise NotJson(
            "Lists and objects of the body are nested hundreds of levels deep; no request needs more than five."
        ) from None
    except ValueError:
        # Python limits the digits of a number, because parsing takes more than linear time.
        raise NotJson(
            "A number of the body has thousands of digits; at most 64 bits are read."
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises InvalidInput for equal keys, of which Python would silently keep the last."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)[:MAX_QUOTED_CHARS]
        raise InvalidInput(
            f"The key {key!r} is in one object more than once: send it once.", field=key
        )

    return values
