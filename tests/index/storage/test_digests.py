import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.storage import digests
from purlin.index.storage.digests import DigestMap, digest

# Few halves, so that many digests share one.
halves = st.sampled_from([b"\0" * 8, b"\1" * 8, b"\xff" * 8, b"abcdefgh"])
keys = st.tuples(halves, halves).map(b"".join)


@given(
    added=st.lists(st.tuples(keys, st.integers(0, 2**40))),
    queried=st.lists(keys),
    recent=st.integers(1, 5),
)
def test_a_map_has_what_a_dict_has(
    added: list[tuple[bytes, int]], queried: list[bytes], recent: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests, "_RECENT", recent)
        numbers, expected = DigestMap(), dict[bytes, int]()
        for key, number in added:
            assert numbers.get(key) == expected.get(key)
            if key not in expected:
                numbers.add(key, number)
                expected[key] = number

        assert len(numbers) == len(expected)
        array = np.frombuffer(b"".join(queried), np.uint64).reshape(-1, 2)
        assert numbers.numbers(array).tolist() == [expected.get(key, -1) for key in queried]


def test_texts_with_lone_surrogates_have_digests() -> None:
    assert digest("\ud800") != digest("\udfff")
    assert digest("Größe") == hashlib.blake2b("Größe".encode(), digest_size=16).digest()
