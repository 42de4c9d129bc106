"""The first answers of a worker are all checked, a newcomer's more often."""

from p2pmoe.backbone.spot_checks import SpotChecks


def test_the_share_falls_as_checks_pass() -> None:
    checks = SpotChecks(
        rate=0.01, newcomer_rate=0.05, newcomer_passes=200, first_passes=8
    )
    assert [checks.share(n) for n in (0, 7, 8, 199, 200)] == [1, 1, 0.05, 0.05, 0.01]


def test_a_newcomer_is_never_checked_less_than_others() -> None:
    assert SpotChecks(rate=0.5, newcomer_rate=0.1).share(0) == 0.5


def test_only_who_is_past_its_newcomers_checks_vouches_for_others() -> None:
    checks = SpotChecks(newcomer_passes=200)
    assert not checks.vouches(199)
    assert checks.vouches(200)
    assert not SpotChecks(newcomer_passes=0).vouches(0)


def test_the_rates_of_design_06() -> None:
    checks = SpotChecks()
    shares = [checks.share(n) for n in (0, 199, 200, 1999, 2000, 10**6)]
    assert shares == [0.05, 0.05, 0.01, 0.01, 0.002, 0.002]


def test_no_checks_are_none_however_well_known() -> None:
    checks = SpotChecks(rate=0.0, newcomer_rate=0.0)
    assert [checks.share(n) for n in (0, 300, 3000)] == [0.0, 0.0, 0.0]
