from p2pmoe.errors import ConfigurationError
from p2pmoe.network.acme.errors import AcmeFailed


def test_it_has_advice_and_the_exit_code_of_wrong_input() -> None:
    assert issubclass(AcmeFailed, ConfigurationError)
    assert AcmeFailed("x").advice
    assert AcmeFailed("x").exit_code == 2
