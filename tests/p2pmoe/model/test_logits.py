from p2pmoe.model.logits import Logits


def test_two_choices() -> None:
    assert {choice.value for choice in Logits} == {"last", "all"}
