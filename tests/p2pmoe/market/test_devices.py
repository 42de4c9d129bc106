import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.devices import Capacity, check_capacity
from p2pmoe.market.errors import OfferRefused

SANE = {
    "memory_bytes": 1 << 30,
    "disk_bytes": 0,
    "rate_macs_s": 10**9,
    "up_bytes_s": 6_100_000,
    "down_bytes_s": 11_200_000,
    "device_class": 1,
    "domain": "192.0.2",
}
NUMBERS = [name for name, value in SANE.items() if isinstance(value, int)]


def test_sane_values_pass() -> None:
    assert check_capacity(Capacity(**SANE)) is DeviceClass.LAPTOP


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, 2**64 - 1, 2**64])
def test_b15_absurd_adverts_are_refused(name: str, value: int) -> None:
    with pytest.raises(OfferRefused):
        check_capacity(Capacity(**(SANE | {name: value})))


@pytest.mark.parametrize("domain", ["x" * 101, "a\nb", "\x1b[31m"])
def test_odd_domains_are_refused(domain: str) -> None:
    with pytest.raises(OfferRefused, match="domain"):
        check_capacity(Capacity(**(SANE | {"domain": domain})))


@given(st.integers(), st.integers())
def test_nothing_but_a_refusal_comes_out(memory: int, device_class: int) -> None:
    claims = SANE | {"memory_bytes": memory, "device_class": device_class}
    try:
        found = check_capacity(Capacity(**claims))
    except OfferRefused:
        return
    assert found in DeviceClass
    assert 0 <= memory <= 1 << 50
