import pytest

from p2pmoe.api.keys import ApiKeys
from p2pmoe.errors import ConfigurationError

FILE = """
# who may call
alice: a-key-of-alice
bob:another:key
"""


def test_several_keys_by_name() -> None:
    keys = ApiKeys.parse(FILE)
    assert keys.client("a-key-of-alice") == "alice"
    assert keys.client("another:key") == "bob"
    for wrong in ("", "alice", "alice:a-key-of-alice", "a-key-of-alicf", "é"):
        assert keys.client(wrong) is None


def test_one_bare_key() -> None:
    keys = ApiKeys.parse("s3cret\n")
    assert keys.client("s3cret") == "key"
    assert keys.client("key") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "# nothing", "a:one\nhidden", "a b:hidden", "a:", "a:hid den"),
        *("a:x\na:hidden", "a:hidden\nb:hidden", ":hidden", "hid den", "a:hid\x01"),
    ],
)
def test_a_bad_file_is_refused_without_showing_keys(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ApiKeys.parse(text)
    assert "hid" not in str(caught.value)
    assert caught.value.advice


def test_keys_are_not_shown() -> None:
    assert "s3cret" not in repr(vars(ApiKeys.parse("s3cret")))
