"""The lines of a start, in words, each once."""

from p2pmoe.backbone.generation import Phase, Readiness
from p2pmoe.backbone.start_report import StartReport


def look(phase: Phase, n_covered: int) -> tuple[Readiness, int, int]:
    return Readiness(phase=phase, covered=n_covered / 100), n_covered, 100


def test_covering_then_ready_then_losses() -> None:
    report = StartReport(in_network=True, has_disk=False)
    assert report.line(*look(Phase.COVERING, 33)) == (
        "not ready: 33 of 100 experts in memory or held by workers; waiting for workers"
    )
    assert report.line(*look(Phase.COVERING, 33)) is None
    assert report.line(*look(Phase.COVERING, 40)) is None
    assert report.line(*look(Phase.COVERING, 60)) == (
        "not ready: 60 of 100 experts in memory or held by workers"
    )
    assert report.line(*look(Phase.READY, 100)) == (
        "ready: 100 of 100 experts in memory or held by workers"
    )
    assert report.line(*look(Phase.READY, 100)) is None
    lost = report.line(*look(Phase.READY, 70))
    assert lost is not None
    assert lost.endswith("; who needs another one waits for a worker")
    assert report.line(*look(Phase.READY, 60)) is None
    assert report.line(*look(Phase.READY, 100)) is not None
    assert report.line(*look(Phase.DRAINING, 100)) is None


def test_a_disk_stands_behind() -> None:
    report = StartReport(in_network=True, has_disk=True)
    first = report.line(*look(Phase.COVERING, 10)) or ""
    assert first.endswith("; waiting a while for workers, then the disk does")
    ready = report.line(*look(Phase.READY, 10)) or ""
    assert ready.endswith("workers; the rest is computed here from disk")


def test_without_a_network() -> None:
    report = StartReport(in_network=False, has_disk=True)
    assert report.line(*look(Phase.READY, 100)) == (
        "ready, without a network: every expert is computed here"
    )
