from p2pmoe.model.logits import Logits


def test_three_choices() -> None:
    assert {choice.value for choice in Logits} == {"none", "last", "all"}
