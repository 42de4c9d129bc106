from p2pmoe.text.errors import PretokenizerUnknown, TemplateError, TokenizerError


def test_a_template_error_says_whose_fault_it_is() -> None:
    assert TemplateError("x", by_messages=True).by_messages
    assert not TemplateError("x").by_messages
    assert TemplateError("x").advice


def test_an_unknown_pretokenizer_is_a_tokenizer_error_with_its_own_advice() -> None:
    error = PretokenizerUnknown("x")
    assert isinstance(error, TokenizerError)
    assert "--pre-tokenizer" in error.advice
    assert error.exit_code == 2
