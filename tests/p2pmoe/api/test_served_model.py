from tests.support.api import EOS, small_model
from tests.support.tool_templates import TOOL_TEMPLATES


def test_the_family_comes_from_the_template() -> None:
    assert small_model().family is None
    assert small_model(template=None).family is None
    family = small_model(template=TOOL_TEMPLATES["glm"]).family
    assert family is not None
    assert family.name == "glm"


def test_grammars_are_made_once() -> None:
    model = small_model()
    assert model.grammars is model.grammars


def test_a_reader_may_see_control_tokens() -> None:
    model = small_model()
    assert model.tokenizer.token_bytes(EOS) == b""
    assert model.reading(("<|im_end|>",))(EOS) == b"<|im_end|>"
    assert model.reading(())(EOS) == b""
    assert model.reading(("<|im_end|>",))(100) == model.tokenizer.token_bytes(100)
