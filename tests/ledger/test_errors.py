"""The error tree: exit codes and peers."""

import inspect

from ledger import errors


def test_every_error_is_in_one_tree_and_exported():
    classes = [
        c
        for _, c in inspect.getmembers(errors, inspect.isclass)
        if c.__module__ == errors.__name__
    ]
    assert all(issubclass(c, errors.LedgerError) for c in classes)
    assert sorted(c.__name__ for c in classes) == errors.__all__


def test_exit_codes_and_peer():
    assert errors.DifferenceFound("x").exit_code == 1
    assert errors.StoreUnavailable("x").exit_code == 2
    assert errors.SignatureRefused("x", peer=b"p").peer == b"p"
    assert errors.StoreBusy("x").advice.endswith(".")
