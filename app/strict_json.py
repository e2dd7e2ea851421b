"""Reads JSON that clients send, by one rule for all, and says what is wrong with it.

Imports no web framework.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from purlin.app.errors import MAX_QUOTED_CHARS, NotJson
from purlin.index.errors import InvalidInput


def parsed(body: bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a body. Raises NotJson, and InvalidInput for a key that is there twice.

    `parse_constant` gives the values of NaN and Infinity, which Python reads.
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
        # Of Python's limit on digits, which keeps the time for a number short.
        raise NotJson(
            "A number of the body has thousands of digits; at most 64 bits are read."
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; otherwise, the last of two equal keys would count, and nothing tell of the first."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        key = next(key for key, count in counts.items() if count > 1)[:MAX_QUOTED_CHARS]
        raise InvalidInput(
            f"The key {key!r} is in one object more than once: send it once.", field=key
        )
    return values
