from random import SystemRandom

from p2pmoe.market.market_settings import MarketSettings


def test_what_is_drawn_cannot_be_foreseen_unless_told_otherwise() -> None:
    settings = MarketSettings(
        network=b"n" * 32, sign=bytes, tie_salt=b"salt", first_serial=0
    )
    assert isinstance(settings.random, SystemRandom)
    assert settings.canaries.period_s == 3600
    assert settings.models == {}
