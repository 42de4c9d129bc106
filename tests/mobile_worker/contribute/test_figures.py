"""Reports: at each change of state, and each second."""

from mobile_worker.contribute.figures import Figures


def test_reported_at_changes_and_each_second() -> None:
    reports = []
    figures = Figures(lambda status, facts: reports.append((status.line, facts.joined)))
    figures.update(0.0)
    figures.update(0.5)
    assert len(reports) == 1
    figures.doing("testing its arithmetic", 1.1)
    assert reports[-1] == ("starting: testing its arithmetic", False)
    figures.facts.joined = True
    figures.relay(up=True, detail="")
    figures.update(1.2)
    assert reports[-1][1]
    figures.relay(up=False, detail="gone")
    figures.update(1.3)
    assert reports[-1][0] == "unreachable: gone"
    assert len(reports) == 4
