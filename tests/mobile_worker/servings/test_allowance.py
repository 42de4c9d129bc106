"""One grant in use."""

from tests.support.money import Money


def test_room_and_expiry() -> None:
    money = Money()
    allowance = money.allowance(money.prices(), ceiling_uc=100, expiry_us=50)
    allowance.used_uc = 30
    assert allowance.room_uc == 70
    assert allowance.is_valid(49)
    assert not allowance.is_valid(50)
