import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.acme.settings import LETS_ENCRYPT, AcmeSettings


def test_what_is_asked_for() -> None:
    settings = AcmeSettings(domains=("relay.example", "xn--bcher-kva.example"))
    assert settings.server == LETS_ENCRYPT
    assert settings.server_folder == "acme-v02.api.letsencrypt.org"
    local = AcmeSettings(domains=("a.b",), server="http://127.0.0.1:14000/dir")
    assert local.server_folder == "127.0.0.1_14000"


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"domains": ()}, "--acme was"),
        ({"domains": ("a.b",) * 21}, "--acme was"),
        ({"domains": ("localhost",)}, "--acme 'localhost'"),
        ({"domains": ("192.0.2.7",)}, "--acme '192"),
        ({"domains": ("*.example.org",)}, "--acme"),
        ({"domains": ("a..b",)}, "--acme"),
        ({"domains": ("-a.b",)}, "--acme"),
        ({"domains": ("a.b/../../x",)}, "--acme"),
        ({"domains": ("a.b\n",)}, "--acme"),
        ({"domains": (".".join(["a" * 60] * 5),)}, "--acme"),
        ({"email": "nobody"}, "--acme-email"),
        ({"email": "a@b, c@d"}, "--acme-email"),
        ({"server": "http://authority.example/dir"}, "--acme-server"),
        ({"server": "https://user@authority.example/dir"}, "--acme-server"),
        ({"server": "ftp://127.0.0.1"}, "--acme-server"),
    ],
)
def test_what_no_authority_could_take_is_named(changes, option: str) -> None:
    with pytest.raises(ConfigurationError, match=option) as caught:
        AcmeSettings(**({"domains": ("a.b",)} | changes))
    assert caught.value.advice
