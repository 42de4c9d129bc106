import pytest

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.token_list import (
    TokenList,
    byte_level_vocabulary,
    list_tokens,
    special_tokens,
)
from p2pmoe.text.tokenizer_config import TokenizerConfig
from p2pmoe.text.vocabulary import TokenKind

TEXTS = {0: "a", 1: "<s>", 3: "<|im_end|>"}
KINDS = {0: TokenKind.NORMAL, 1: TokenKind.CONTROL, 3: TokenKind.CONTROL}


def tokens() -> TokenList:
    return list_tokens("place", TEXTS, KINDS, 6)


def test_holes_and_spare_rows_are_unused_tokens() -> None:
    own = tokens()
    assert own.texts == ("a", "<s>", "[PAD2]", "<|im_end|>", "[PAD4]", "[PAD5]")
    assert own.kinds[2] is own.kinds[5] is TokenKind.UNUSED
    assert own.ids == {"a": 0, "<s>": 1, "<|im_end|>": 3}
    assert len(list_tokens("place", TEXTS, KINDS, 0).texts) == 4


@pytest.mark.parametrize(
    ("texts", "n_rows", "message"),
    [
        ({-1: "a"}, 0, "missing or too large"),
        ({1 << 40: "a"}, 0, "missing or too large"),
        ({0: "a"}, 1 << 40, "missing or too large"),
        ({0: "a"}, 1 << 20, "1 tokens for a vocabulary of 1048576"),
        ({0: "a", 1: "a"}, 0, "not unique"),
    ],
)
def test_what_is_no_list_of_tokens_is_refused(
    texts: dict[int, str], n_rows: int, message: str
) -> None:
    with pytest.raises(TokenizerError, match=f"place: .*{message}"):
        list_tokens("place", texts, {}, n_rows)


def test_special_tokens_are_named_by_text_or_id() -> None:
    named = special_tokens(tokens(), TokenizerConfig(bos="<s>", bos_id=0, eos_ids=(0,)))
    assert (named.bos_id, named.eos_id) == (1, 0)
    assert named.stop_ids == {0, 3}  # <|im_end|> always ends a turn
    nothing = special_tokens(tokens(), TokenizerConfig())
    assert (nothing.bos_id, nothing.eos_id, nothing.add_bos) == (None, None, False)


def test_a_stop_beyond_the_rows_is_passed_over_and_a_named_one_is_not() -> None:
    later = special_tokens(tokens(), TokenizerConfig(eos_ids=(0, 99)))
    assert later.stop_ids == {0, 3}
    for wrong in (TokenizerConfig(eos_ids=(99,)), TokenizerConfig(bos="<bos>")):
        with pytest.raises(TokenizerError, match="is not in the vocabulary"):
            special_tokens(tokens(), wrong)


def test_what_stands_around_a_text_is_added_unless_the_files_say_otherwise() -> None:
    config = TokenizerConfig(bos="<s>", eos="<|im_end|>")
    own = special_tokens(tokens(), config, before="<s>", after="a")
    assert (own.add_bos, own.add_eos) == (True, False)
    never = TokenizerConfig(bos="<s>", add_bos=False)
    assert not special_tokens(tokens(), never, before="<s>").add_bos


def test_merges_are_written_as_files_write_them() -> None:
    special = special_tokens(tokens(), TokenizerConfig())
    own = byte_level_vocabulary(
        tokens(), special, "gpt-2", [("a", "b"), ("ab", "c")], ignore_merges=True
    )
    assert own.merges == ("a b", "ab c")
    assert own.ignore_merges
    assert own.texts == tokens().texts
