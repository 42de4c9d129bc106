"""Expert ids: order, packing, bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId

_u16 = st.integers(0, 0xFFFF)


@given(_u16, _u16)
def test_packing_round_trips_and_keeps_the_order(layer, index):
    expert = ExpertId(layer, index)
    assert ExpertId.unpack(expert.packed) == expert
    assert (expert < ExpertId(3, 4)) == (expert.packed < ExpertId(3, 4).packed)


@pytest.mark.parametrize("values", [(-1, 0), (0, -1), (65_536, 0), (0, 65_536)])
def test_out_of_bounds_is_refused(values):
    with pytest.raises(ValueError, match="no such expert"):
        ExpertId(*values)
    with pytest.raises(ValueError, match="no such expert"):
        ExpertId.unpack(1 << 32)


def test_it_reads_well():
    assert str(ExpertId(3, 17)) == "3.17"
