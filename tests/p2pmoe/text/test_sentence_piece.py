from p2pmoe.text.sentence_piece import score_merges


def test_better_scores_merge_first_and_all_splits_are_listed() -> None:
    known = {"a": 0, "b": 1, "ab": 2, "abb": 3, "bb": 4, "zz": 5}
    scores = {"a": 0.0, "b": 0.0, "ab": -2.0, "abb": -1.0, "bb": -3.0, "zz": -0.5}
    assert score_merges(known, scores) == [
        ("a", "bb"),
        ("ab", "b"),
        ("a", "b"),
        ("b", "b"),
    ]


def test_equal_scores_go_by_token_id() -> None:
    known = {"a": 0, "b": 1, "ba": 2, "ab": 3}
    assert score_merges(known, dict.fromkeys(known, 1.0)) == [("b", "a"), ("a", "b")]
