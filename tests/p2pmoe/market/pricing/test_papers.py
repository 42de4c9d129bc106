from pathlib import Path

import pytest

from ledger.standby import ExpertScarcity, StandbyPaper
from p2pmoe.market.pricing import papers as papers_module
from p2pmoe.market.pricing.papers import (
    Papers,
    read_papers,
    remove_paper,
    write_paper,
)
from p2pmoe.market.pricing.standby import SignedPaper

DAY_US = 86_400_000_000


def paper(number: int) -> SignedPaper:
    told = StandbyPaper(
        network=bytes(32),
        manifest_hash=bytes(32),
        epoch=number,
        from_us=number * DAY_US,
        to_us=(number + 1) * DAY_US,
        price_table_hash=bytes(32),
        pot_uc=1,
        experts=(ExpertScarcity(1, 0, 1, 1, 1),),
        holdings=(),
    )
    return SignedPaper(told.pack(), bytes([number]) * 64, told.to_us)


def epochs(due) -> list[int]:
    return [StandbyPaper.parse(standby.paper).epoch for standby in due]


def test_a_paper_is_sent_again_until_it_is_booked() -> None:
    papers = Papers([paper(2), paper(1)])
    assert epochs(papers.due(0.0)) == [1, 2]
    assert papers.due(59.0) == []
    assert papers.booked(paper(1).name, "", 59.0)
    assert not papers.booked(paper(1).name, "", 59.0)  # a late repeat
    assert epochs(papers.due(60.0)) == [2]
    assert papers.waiting == {paper(2).name: paper(2)}


@pytest.mark.parametrize(
    ("error", "again"), [("later: the pot is empty", 1), ("no", 0)]
)
def test_what_may_go_away_is_sent_again_later(error: str, again: int) -> None:
    papers = Papers([paper(1)])
    papers.due(0.0)
    assert papers.booked(paper(1).name, error, 1.0) == (not again)
    assert papers.due(600.0) == []
    assert len(papers.due(601.0)) == again


def test_after_a_long_outage_a_few_are_under_way_and_none_holds_up_the_rest() -> None:
    papers = Papers([paper(number) for number in range(1, 10)])
    assert epochs(papers.due(0.0)) == [1, 2, 3, 4]
    assert papers.due(2.0) == []
    assert papers.booked(paper(2).name, "", 3.0)
    assert not papers.booked(paper(3).name, "later: the pot is empty", 3.0)
    assert epochs(papers.due(4.0)) == [5, 6]
    assert epochs(papers.due(60.0)) == [7, 8]  # 1 and 4, unanswered, after them
    assert epochs(papers.due(64.0)) == [9, 1]
    assert epochs(papers.due(120.0)) == [4, 5]


def test_after_a_week_it_is_dropped() -> None:
    papers = Papers([paper(1), paper(2)])
    assert papers.expire(9 * DAY_US) == []
    assert papers.expire(9 * DAY_US + 1) == [paper(1).name]
    assert list(papers.waiting) == [paper(2).name]


def test_the_oldest_make_room(monkeypatch) -> None:
    monkeypatch.setattr(papers_module, "_MAX_PAPERS", 2)
    papers = Papers([paper(1), paper(2)])
    assert papers.add(paper(3)) == [paper(1).name]
    assert list(papers.waiting) == [paper(2).name, paper(3).name]


def test_papers_outlive_the_process(tmp_path: Path) -> None:
    folder = tmp_path / "standby"
    for number in (1, 2):
        write_paper(folder, paper(number))
    write_paper(folder, paper(1))
    (folder / "nonsense.paper").write_bytes(b"x" * 200)
    (folder / "short.paper").write_bytes(b"")
    (folder / "folder.paper").mkdir()
    assert sorted(read_papers(folder), key=lambda p: p.to_us) == [paper(1), paper(2)]
    remove_paper(folder, paper(1).name)
    remove_paper(folder, paper(1).name)
    assert read_papers(folder) == [paper(2)]


def test_without_a_folder_there_are_none(tmp_path: Path) -> None:
    assert read_papers(tmp_path / "none") == []
    with pytest.raises(OSError, match="none"):
        write_paper(tmp_path / "none" / "below", paper(1))
