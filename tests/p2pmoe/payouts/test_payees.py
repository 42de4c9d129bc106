"""The payee file: CSV and TOML alike, a wrong line keeps nobody else from his money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.payouts.errors import PayeesBroken
from p2pmoe.payouts.payees import Payee, parse_payees, read_payees

ADA, BOB, EVE = ("aa" * 32, "bb" * 32, "ee" * 32)
IBAN = "DE89370400440532013000"
CSV = f"""worker,name,iban,bic,id
{ADA},Ada  Lovelace,DE89 3704 0044 0532 0130 00,,acct_1
{BOB.upper()},"Bob, Builder",DE89370400440532013001,,
{EVE},Eve,,COBADEFF,acct_2
"""
TOML = f"""
[payee.{ADA}]
name = "Ada Lovelace"
iban = "{IBAN}"
id = "acct_1"
[payee.{BOB}]
name = "Bob, Builder"
iban = "DE89370400440532013001"
[payee.{EVE}]
name = "Eve"
bic = "COBADEFF"
id = "acct_2"
"""


@pytest.mark.parametrize(("text", "is_toml"), [(CSV, False), (TOML, True)])
def test_both_formats_say_the_same(text, is_toml):
    found = parse_payees(text, is_toml=is_toml)
    ada = bytes.fromhex(ADA)
    assert found.good[ada] == Payee(
        worker=ada, name="Ada Lovelace", iban=IBAN, id="acct_1"
    )
    assert found.good[bytes.fromhex(EVE)].iban == ""
    assert list(found.bad) == [bytes.fromhex(BOB)]
    assert "typing error" in found.bad[bytes.fromhex(BOB)]


def test_a_file_as_a_spreadsheet_writes_it(tmp_path):
    path = tmp_path / "payees.csv"
    text = CSV.replace('"Bob, Builder"', "Bob").replace(",", ";").replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n;;;;\r\n")
    assert len(read_payees(path).good) == 2
    toml = tmp_path / "payees.TOML"
    toml.write_text(TOML)
    assert len(read_payees(toml).good) == 2


def test_two_payees_for_one_worker_are_both_left_out():
    text = f"worker,name,iban\n{ADA},Ada,{IBAN}\n{ADA},Eve,{IBAN}\n{BOB},Bob,{IBAN}\n"
    found = parse_payees(text, is_toml=False)
    assert list(found.good) == [bytes.fromhex(BOB)]
    assert found.bad == {bytes.fromhex(ADA): "two payees for one worker"}


@pytest.mark.parametrize(
    ("text", "is_toml"),
    [
        ("", False),
        ("name,iban\nAda,DE\n", False),
        ("worker,name,iban,salary\n", False),
        ("worker,worker\n", False),
        (f"worker,name\n{ADA}\n", False),
        (f"worker,name\n{ADA[:-1]},Ada\n", False),
        (f"worker,name\n{ADA[:-1]}\u0661,Ada\n", False),
        (f'worker,name\n{ADA},"Ada\n', False),
        ("payee = 1", True),
        ("x = 1", True),
        (f"payee.{ADA} = 1", True),
        (f"[payee.{ADA}]\nname = 1", True),
        (f"[payee.{ADA}]\nsalary = 'x'", True),
        ("[payee.short]\nname = 'x'", True),
        ("[" * 5000, True),
        ("a = " + "[" * 5000, True),
        ("a = " + "1" * 5000, True),
        (f"[{'.'.join('a' * 3000)}]", True),
    ],
)
def test_a_file_that_is_wrong_as_a_whole(text, is_toml):
    with pytest.raises(PayeesBroken):
        parse_payees(text, is_toml=is_toml)


@pytest.mark.parametrize("name", ["", " ", "x" * 71, "Ada\x1b[2J"])
def test_a_name_that_no_bank_takes(name):
    found = parse_payees(f"worker,name,iban\n{ADA},{name},{IBAN}\n", is_toml=False)
    assert not found.good
    assert "characters" in next(iter(found.bad.values()))


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(PayeesBroken, match="there is no payee file"):
        read_payees(tmp_path / "none.csv")
    (tmp_path / "raw.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(PayeesBroken, match="not UTF-8"):
        read_payees(tmp_path / "raw.csv")
    with pytest.raises(PayeesBroken, match="is a directory"):
        read_payees(tmp_path)


@given(st.text(max_size=80), st.booleans())
def test_any_text_is_read_or_refused(text, is_toml):
    try:
        parse_payees("worker,name\n" * (not is_toml) + text, is_toml=is_toml)
    except PayeesBroken:
        return
