"""What queries quote from code: messages, flags, and names without a definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from purlin.index.records import Document
from purlin.index.search.corpus import Corpus
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.ranking.quotes import quotes
from purlin.index.search.why import why
from tests.support.corpora import open_repository


def share(query: str, body: str, titles: Sequence[str] = ()) -> float | None:
    """How much of a query a body has word for word, every token with the weight 1."""
    quoted = quotes(query, dict.fromkeys(tokens(query), 1.0), titles)
    return None if quoted is None else quoted(Document("a::b", "code", "b", body))


def test_a_message_counts_however_it_is_put_together() -> None:
    message = "the gauge of the upper lock is not calibrated"
    assert share(message, 'raise Fault("The gauge of the upper lock is not calibrated!")') == 0.9
    assert share(message, '"the gauge of the upper " .\n    "lock is not calibrated"') == 0.9
    assert share(message, "# calibrated? The lock of the gauge is not the upper one") == 0.0


def test_a_part_of_a_message_counts_by_its_square_from_a_half_on() -> None:
    message = "gauge seven failed while reading lock nine"
    code = '"seven failed while reading lock"'
    assert share(message, code) == pytest.approx(0.9 * (5 / 7) ** 2)
    assert share(f"{message} of the northern upper canal in rain", code) == 0.0


def test_a_long_message_counts_whatever_is_around_it() -> None:
    code = 'log.error("failed reading gauge seven; falling back to lock nine", error)'
    line = (
        "2026-11-30T08:12:44.310Z ERROR pump.reader failed reading gauge seven; falling back to lock nine"
        ' {"error": "lookup tank.example.com: no such host", "attempt": 3, "elapsed": "0.2s"}'
    )
    assert share(line, code) == pytest.approx(0.9 * 0.8**2)
    # Five words that say something may be shared by chance.
    assert share(line.replace("falling back to lock nine", "is gone"), code) == 0.0


@pytest.mark.parametrize(
    "code",
    [
        """raise Fault(f"gate {gate.name!r} did not close within {seconds} s")""",
        """raise Fault("gate '%s' did not close within %d s" % (name, seconds))""",
        """raise Fault, "gate '#{name}' did not close within #{seconds} s\"""",
        """throw new Fault("gate '" + name + "' did not close within " + seconds + " s")""",
        """throw new Fault('gate ' . $this->name . ' did not close within ' . $seconds . ' s')""",
        """return fmt.Errorf("gate %q did not close within %.1f s", name, seconds)""",
    ],
)
def test_the_values_in_a_message_count_with_it(code: str) -> None:
    for message in (
        "gate 'north sluice' did not close within 30 s",
        "locks.Fault: gate 'north sluice' did not close within 30 s",
        "LockException: gate 7 did not close within 2.5 s",
    ):
        quoted = share(message, code)
        assert quoted is not None
        assert quoted == 0.9 or (message.startswith("locks") and quoted > 0.5)
    assert share("close the gate before 30 s are over, it did open", code) == 0.0


def test_a_value_begins_or_ends_a_message() -> None:
    assert share("north gate was never closed", 'f"{name} was never closed"') == 0.9
    assert share("timed out after 30 s", 'f"Timed out after {seconds} s"') == 0.9
    # So many words are no value.
    message = "the upper gate of the northern lock was never closed"
    assert share(message, 'f"{name} was never closed"') == 0.0


def test_common_words_in_a_row_are_no_quotation() -> None:
    assert share("check a gate's levels", "# Of a gate's levels, the upper one.") == 0.0
    assert share("check the gate levels", "# Check the gate levels.") == 0.9


@pytest.mark.parametrize(
    "code",
    [
        "parser.add_argument('--keep-gates')",
        'struct option o = { "keep-gates", 0, NULL, 1 };',
        "GetOptions('keep-gates|k=s' => \\$keep)",
        'eval "$(getopt -l keep-gates: --keep-gates)"',
        "| `--keep-gates` | leaves the gates as they are |",
    ],
)
def test_flags_count_where_they_are_read_or_described(code: str) -> None:
    assert share("--keep-gates", code) == 0.9


def test_where_a_flag_is_declared_counts_whatever_is_around_it() -> None:
    query = "rename the option --keep-gates of the upper northern canal to something shorter"
    assert share(query, "parser.add_argument('--keep-gates')") == pytest.approx(0.9 * 0.8**2)
    assert share(query, "# Without --keep-gates, they are closed.") == 0.0


@pytest.mark.parametrize(
    "code", ["keep gates", "--keep-gates-open", "x--keep-gates", "keep-gates", "--no-keep-gates"]
)
def test_other_words_are_no_flags(code: str) -> None:
    assert share("--keep-gates", code) == 0.0


def test_a_name_counts_where_nothing_defines_it() -> None:
    assert share("LOCK_GATE_DELAY", "delay = environ['LOCK_GATE_DELAY']") == 0.9
    assert share("LOCK_GATE_DELAY", "LOCK_GATE_DELAYS") == 0.0
    assert share("open_gate", "open_gate()", ["Lock.Open_Gate"]) is None


def test_most_queries_quote_nothing() -> None:
    for query in ("", "open the gate", "-", "--", "a-b-c", "gate -k"):
        assert share(query, query) is None
    assert quotes("the of and is", {}, ()) is None


def test_long_queries_and_bodies_take_no_time_to_speak_of() -> None:
    words = "gate lock weir sluice " * 20_000
    names = " ".join(f"gate_{number}" for number in range(5_000))
    for query in (words, "--a" * 20_000, "a_b" * 20_000, names, f"--{names.replace(' ', ' --')}"):
        share(query, words)


def test_only_the_first_words_of_a_query_are_compared() -> None:
    assert share("gate_0 " * 99 + "gate_100", "gate_100()") == pytest.approx(0.9 * (3 / 5) ** 2)
    assert share("gate_0 " * 100 + "gate_100", "gate_100()") == 0.0


FILES = {
    "lock/gauge.py": (
        "def read_gauge(gauge):\n"
        + "    level = gauge.level()\n" * 40
        + "    if not gauge.ready:\n"
        + '        raise Fault("Only one gauge can be read while the lock is open.")\n'
        + "    level = gauge.level()\n" * 40
    ),
    "lock/open.py": "def open_lock(lock):\n    read_gauge(lock)\n    return lock.open()\n",
    "lock/main.py": (
        "def main(arguments):\n    parser.add_argument('--keep-gates', action='store_true')\n"
        "    parser.add_argument('--port')\n    return parser.parse_args(arguments)\n"
    ),
    "lock/gates.py": "def keep_gates(gates):\n    return [gate for gate in gates if gate.keep]\n",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    with open_repository(tmp_path_factory.mktemp("repository"), FILES) as corpus:
        yield corpus


def test_what_has_the_message_comes_first(corpus: Corpus) -> None:
    query = "Only one gauge can be read while the lock is open."
    hits = corpus.search(query, explain=True).hits
    assert hits[0].title == "read_gauge"
    assert hits[0].score > 0.9 > hits[1].score
    assert why(query, hits[0]).endswith("mostly what you quoted")
    parts = (hits[0].explanation or {})["parts"]
    assert sum(parts.values()) == pytest.approx(hits[0].score, abs=1e-3)


def test_what_reads_the_flag_comes_first(corpus: Corpus) -> None:
    hits = corpus.search("--keep-gates").hits
    assert hits[0].title == "main"
    assert hits[0].score > 0.9
