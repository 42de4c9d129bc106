import pytest

from mobile_worker.shards.addresses import (
    AddressRefused,
    check_address,
    is_loopback,
    redirected,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/a%20b.gguf?x=1",
        "https://models.example:8443/m",
        "https://1.1.1.1/m",
        "http://127.0.0.1:8000/m",
        "http://localhost/m",
        "http://[::1]:80/m",
        "https://127.0.0.1/m",
    ],
)
def test_public_https_and_this_machine_may_be_asked(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "m.gguf",
        "file:///etc/passwd",
        "ftp://models.example/m",
        "http://models.example/m",
        "http://10.0.0.1/m",
        "https://10.0.0.1/m",
        "https://169.254.169.254/latest",
        "https://[fd00::1]/m",
        "https://0.0.0.0/m",
        "https://2130706433/m",
        "https://0x7f.1/m",
        "http://127.0.0.1.example/m",
        "https://user:secret@models.example/m",
        "https://models.example:0/m",
        "https://models.example:99999/m",
        "https:///m",
        "https://models.example/a b",
        "https://modèles.example/m",
        "https://[::1/m",
    ],
)
def test_anything_else_is_refused_with_its_name(url: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        check_address(url)
    assert repr(url[:80]) in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/m", "https://localhost/m", "http://a.localhost./m"]
)
def test_a_stranger_may_not_name_this_machine(url: str) -> None:
    assert is_loopback(url)
    with pytest.raises(AddressRefused, match="on this machine"):
        check_address(url, loopback=False)


def test_a_redirect_stays_where_asking_is_allowed() -> None:
    public, local = "https://models.example/a/m", "http://127.0.0.1:8000/a/m"
    assert redirected(public, "../b") == "https://models.example/b"
    assert redirected(public, "https://cdn.example/b") == "https://cdn.example/b"
    assert redirected(local, "http://localhost:1/b") == "http://localhost:1/b"
    assert redirected(local, "/b") == "http://127.0.0.1:8000/b"
    for location in ("http://127.0.0.1/b", "http://cdn.example/b", "file:///b", "//[/"):
        with pytest.raises(AddressRefused):
            redirected(public, location)
