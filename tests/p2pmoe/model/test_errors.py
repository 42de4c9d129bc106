import pytest

from p2pmoe.errors import P2pmoeError, RequestFailed
from p2pmoe.model import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_all_are_in_the_packages_tree(name: str) -> None:
    assert isinstance(getattr(errors, name)("message"), P2pmoeError)


def test_what_one_request_causes_ends_that_request_only() -> None:
    for error in (errors.CacheFull, errors.TokenRefused, errors.SamplingRefused):
        assert issubclass(error, RequestFailed)
