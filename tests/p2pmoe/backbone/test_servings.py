"""The settlement is what the dispatcher's seam asks for."""

from p2pmoe.backbone.servings import Accounts
from p2pmoe.backbone.settlement import Settlement
from tests.support.backbone import CountingAccounts


def test_the_fake_and_the_product_have_the_seams_methods() -> None:
    wanted = {name for name in vars(Accounts) if not name.startswith("_")}
    assert wanted == {
        "abandon",
        "accept",
        "number",
        "refused_for_grant",
        "room",
        "withhold",
    }
    for implementation in (Settlement, CountingAccounts):
        assert wanted <= set(dir(implementation))
