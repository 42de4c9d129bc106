from p2pmoe.errors import P2pmoeError
from p2pmoe.market.errors import MarketError, MemoryFileBroken


def test_one_tree_below_the_packages_own() -> None:
    assert issubclass(MarketError, P2pmoeError)
    assert MemoryFileBroken("x").advice
    assert MemoryFileBroken("x").exit_code == 2
