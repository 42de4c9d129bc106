from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import (
    FolderUnusable,
    InviteBroken,
    NetworkError,
    NetworkMissing,
)


def test_each_has_its_advice_and_the_exit_code_of_wrong_input() -> None:
    for kind in (FolderUnusable, InviteBroken, NetworkMissing):
        assert issubclass(kind, NetworkError)
        assert issubclass(kind, ConfigurationError)
        assert kind("x").advice
        assert kind("x").exit_code == 2
