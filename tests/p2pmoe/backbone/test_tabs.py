"""A tab is used once a serving was numbered or a book opened."""

from p2pmoe.backbone.books import Book
from p2pmoe.backbone.tabs import Tab
from relay.keys import PeerId
from tests.support.money import TAB
from tests.support.vouchers import PRICES, TERMS


def test_a_tab_is_used_by_its_first_number_or_book() -> None:
    tab = Tab(worker=PeerId(TERMS.worker), tab=TAB)
    assert not tab.is_used
    assert Tab(worker=PeerId(TERMS.worker), tab=TAB, next_serving=1).is_used
    tab.books[PRICES.epoch] = Book(TERMS, PRICES)
    assert tab.is_used
