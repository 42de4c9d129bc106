from p2pmoe.errors import P2pmoeError, RequestFailed
from p2pmoe.grammar.errors import ConstraintFailed, GrammarRefused


def test_a_schema_is_the_callers_fault_and_a_failure_ends_one_request() -> None:
    assert issubclass(GrammarRefused, P2pmoeError)
    assert not issubclass(GrammarRefused, RequestFailed)
    assert issubclass(ConstraintFailed, RequestFailed)
