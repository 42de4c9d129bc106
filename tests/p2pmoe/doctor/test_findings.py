"""One finding, and how an error becomes one."""

from p2pmoe.doctor.findings import Verdict, fault_of
from p2pmoe.errors import ConfigurationError
from relay.errors import RelayUnreachable


def test_an_errors_words_and_advice_are_the_findings() -> None:
    finding = fault_of("relay", RelayUnreachable("nobody answers"))
    assert (finding.check, finding.verdict) == ("relay", Verdict.FAULT)
    assert finding.text == "nobody answers"
    assert "firewall" in finding.advice
    assert fault_of("x", ConfigurationError("bad", advice="y")).advice == "y"
