"""Where the time of a search goes, as the server's own metrics count it.

`/metrics` sums up the seconds of each stage and of whole requests; the difference of two scrapes,
divided by the searches between them, is what one takes. Nothing is measured that is not served:
asking for an explanation would make a search longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.speed.load import Client, Request

RETRIEVAL = ("encode", "dense", "lexical")
# The whole request, from its first byte in the app to the last one of the reply.
WHOLE = "request"
_STAGE, _REQUEST = "purlin_stage_seconds_sum", "purlin_request_seconds_sum"


def stage_means(port: int, requests: Sequence[Request]) -> dict[str, float]:
    """Mean milliseconds of each stage of these searches, and of a whole one.

    The server must have one process and no other work. Raises RuntimeError for a reply other than
    200.
    """
    client = Client(port)
    before = dict(_seconds(client))
    for request in requests:
        client.content(request)
    after = dict(_seconds(client))
    client.close()

    return {
        stage: (seconds - before.get(stage, 0.0)) * 1000 / len(requests)
        for stage, seconds in after.items()
    }


def share_elsewhere(stages: Mapping[str, float]) -> float:
    """Share of a search outside of encoding and the two retrievers."""
    return 1 - sum(stages.get(stage, 0.0) for stage in RETRIEVAL) / stages[WHOLE]


def _seconds(client: Client) -> Iterator[tuple[str, float]]:
    """Yield each stage, and the whole of a search, with the seconds of all requests so far."""
    content = client.content(Request("GET", "/metrics")).decode()
    for family in text_string_to_metric_families(content):
        for sample in family.samples:
            if sample.name == _STAGE:
                yield sample.labels["stage"], sample.value
            elif sample.name == _REQUEST and sample.labels["route"] == "/search":
                yield WHOLE, sample.value
