"""The office: what an operation sees is the writer's own transaction and time."""

from ledger.office import Office
from ledger.settlement import GrantPolicy


class Desk:
    connection = object()
    now_us = 7


def test_an_office_shows_its_desk():
    desk = Desk()
    office = Office(desk=desk, sign=lambda raw: raw, policy=GrantPolicy())
    assert office.connection is desk.connection
    assert office.now_us == 7
