"""Records hold what was put in, and nothing that was changed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simverify.simulators.run import Counts
from simverify.sweeping.records import (
    CountsRecord,
    ResultRecord,
    frame,
    pack,
    pack_counts,
    unpack,
    unpack_counts,
)

RECORDS = [
    CountsRecord(3, "run", ((0, 4), (7, 8)), b"SVS1 in the middle of a payload"),
    CountsRecord(3, "first calls", ((1, 2),), b""),
    ResultRecord(3, "cell", b"{}", b"SVS1"),
]
KEY = b"of this sweep"
DATA = b"".join(pack(record, KEY) for record in RECORDS)


def test_records_come_back():
    assert list(unpack(DATA, KEY)) == RECORDS
    assert list(unpack(b"", KEY)) == []


def test_a_changed_byte_costs_one_record_and_is_seen():
    for place in range(len(DATA)):
        changed = DATA[:place] + bytes([DATA[place] ^ 0x20]) + DATA[place + 1 :]
        found = list(unpack(changed, KEY))
        assert found.count(None) == 1
        assert len(found) == 3
        assert all(record in RECORDS for record in found if record is not None)


def test_what_is_cut_short_leaves_the_records_before_it():
    ends = np.cumsum([0, *(len(pack(record, KEY)) for record in RECORDS)])
    for length in range(1, len(DATA)):
        whole = int((ends <= length).sum()) - 1
        torn = [] if length in ends else [None]
        assert list(unpack(DATA[:length], KEY)) == RECORDS[:whole] + torn


def test_a_whole_record_of_something_else_is_none():
    assert list(unpack(frame(b"\xc1", KEY) + DATA, KEY)) == [None, *RECORDS]


def test_records_of_another_sweep_are_none():
    other = b"".join(pack(record, b"of another one") for record in RECORDS)
    assert set(unpack(other, KEY)) == {None}
    assert [one for one in unpack(other + DATA + other, KEY) if one] == RECORDS


whole_numbers = st.integers(0, 2**62)


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.int64, 3, elements=whole_numbers),
    arrays(np.int64, (2, 2), elements=whole_numbers),
    arrays(np.int64, (1, 2, 2), elements=st.integers(0, 300)),
    whole_numbers,
    st.booleans(),
)
def test_counts_come_back(accepted, lengths, transitions, trials, small):
    counts = Counts(trials, accepted, lengths, transitions, np.zeros((2, 0, 16), np.int64), 5)
    found = unpack_counts(pack_counts(counts, small=small))
    assert (found.trials, found.unsupported) == (trials, 5)
    for name in ("accepted", "lengths", "transitions", "pits"):
        one, other = getattr(found, name), getattr(counts, name)
        assert one.dtype == np.int64
        assert one.shape == other.shape
        assert (one == other).all()
