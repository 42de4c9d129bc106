from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.pricing.epochs import MAX_EPOCH, epoch_at


@given(st.integers(0, 1 << 60), st.integers(1_000_000, 86_400_000_000))
def test_every_instant_lies_in_its_epoch(wall_us: int, length_us: int) -> None:
    epoch = epoch_at(wall_us, length_us)
    assert epoch.to_us - epoch.from_us == length_us
    if epoch.number < MAX_EPOCH:
        assert epoch.from_us <= wall_us < epoch.to_us
    following = epoch_at(epoch.to_us, length_us)
    assert following.number == min(epoch.number + 1, MAX_EPOCH)
