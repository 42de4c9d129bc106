"""One grant in use."""

import pytest

from ledger.errors import FormatRefused
from mobile_worker.servings.allowance import GrantUse
from tests.support.money import Money


def test_room_and_expiry() -> None:
    money = Money()
    allowance = money.allowance(money.prices(), ceiling_uc=100, expiry_us=50)
    allowance.used_uc = 30
    assert allowance.room_uc == 70
    assert allowance.is_valid(49)
    assert not allowance.is_valid(50)


def test_a_use_reads_back() -> None:
    money = Money()
    allowance = money.allowance(money.prices(), expiry_us=50)
    allowance.claimed_uc = 7
    use = allowance.use
    assert (use.name, use.claimed_uc, use.expiry_us) == (allowance.name, 7, 50)
    assert GrantUse.parse(use.pack()) == use
    with pytest.raises(FormatRefused):
        GrantUse.parse(use.pack()[1:])
