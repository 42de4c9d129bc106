from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import CheckOutcome
from mobile_worker.messages.codec import encode_message
from p2pmoe.backbone.audit_reports import REPORT_S, AuditReports
from tests.support.backbone import peer_id

PASSED, FAILED, SILENT = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.SILENT
NAME = b"m" * 32


def test_counts_go_by_worker_outcome_and_expert() -> None:
    reports = AuditReports()
    assert reports.take(0.0, NAME) == []
    reports.note(peer_id(1), PASSED, 2, [5])
    reports.note(peer_id(1), PASSED, 2, [5, 6])
    reports.note(peer_id(2), SILENT, 0, [1])
    assert reports.take(REPORT_S - 1, NAME) == []
    found = reports.take(REPORT_S, NAME)
    for report in found:
        encode_message(report)
    assert [(r.worker, r.outcome, r.counts) for r in found] == [
        (peer_id(1), PASSED, ((ExpertId(2, 5), 2), (ExpertId(2, 6), 1))),
        (peer_id(2), SILENT, ((ExpertId(0, 1), 1),)),
    ]
    assert reports.take(3 * REPORT_S, NAME) == []


def test_a_failed_check_is_told_at_once() -> None:
    reports = AuditReports()
    reports.take(0.0, NAME)
    reports.note(peer_id(1), FAILED, 0, [1])
    (report,) = reports.take(0.1, NAME)
    assert (report.outcome, report.manifest_hash) == (FAILED, NAME)
    assert reports.take(0.2, NAME) == []


def test_silence_is_forgotten_when_our_own_link_is_down() -> None:
    reports = AuditReports()
    reports.note(peer_id(1), SILENT, 0, [1])
    reports.note(peer_id(1), PASSED, 0, [1])
    reports.forget_silence()
    (report,) = reports.take(REPORT_S, NAME)
    assert report.outcome == PASSED


def test_it_is_bounded() -> None:
    reports = AuditReports()
    for n in range(3000):
        reports.note(n.to_bytes(32, "big"), PASSED, 0, [1])
    assert len(reports.take(REPORT_S, NAME)) == 1024
