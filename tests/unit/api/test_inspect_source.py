"""``inspect_source``: exact counts for the holder of the data, on the screen and nowhere else."""

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.__main__ import main
from dpmodels.errors import RequestError, SourceError

RAW = "id;sex;age;income;born;stay;smoker\n" + "".join(
    f"{i};{sex};{age};{income};{born};{stay};{smoker}\n"
    for i, (sex, age, income, born, stay, smoker) in enumerate([
        ("f", "34", "1.234,5", "01.02.1980", "x", "ja"),
        (" M ", "-9", "12,5", "1980-02-01", "x", "Nein"),
        ("d", "200", "abc", "31.02.1980", "x", "vielleicht"),
        ("", "NA", "", "", "x", "vielleicht"),
        ("F", "5", "7", "01.01.1900", "x", "kA"),
    ])
)  # fmt: skip
SCHEMA = dp.Schema(
    sex=dp.Levels(["f", "m"]),
    age=dp.Real(0, 120, missing=[-9]),
    income=dp.Real(0, 1000, thousands=".", decimal=","),
    born=dp.Date("1920-01-01", "2010-12-31", format="%d.%m.%Y"),
    smoker=dp.Levels(["ja", "nein"], other="nein", missing=["ka"]),
    gone=dp.Real(0, 1),
)
WANT = {"sex": (1, 0, 1, 0), "age": (2, 0, 0, 1), "income": (1, 1, 0, 1), "born": (1, 2, 0, 1),
        "smoker": (1, 0, 2, 0)}  # fmt: skip


def counts(text):
    out = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in WANT and len(words) == 5 and words[1].isdigit():
            out[words[0]] = tuple(int(w) for w in words[1:])
    return out


def test_counts_are_exact(tmp_path, capsys):
    path = tmp_path / "raw.csv"
    path.write_text(RAW)
    before = sorted(tmp_path.iterdir())
    dp.inspect_source(dp.read_csv(path, sep=";", decimal=","), SCHEMA)
    text = capsys.readouterr().out
    assert text.startswith("These are counts of the private rows. They are not covered by the guarantee")
    assert counts(text) == WANT
    assert "'vielleicht' 2" in text and "'d' 1" in text and "'1980-02-01' 1" in text
    assert "gone: the data have no such column" in text
    assert "does not declare: id, stay" in text and "5 rows, of which 1 " in text
    assert sorted(tmp_path.iterdir()) == before
    frame = pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)
    dp.inspect_source(frame, SCHEMA.update(age=dp.Real(0, 120, missing=[-9], decimal=".")))
    assert counts(capsys.readouterr().out) == WANT


@pytest.mark.parametrize(
    ("written", "read", "says"),
    [("latin-1", None, 'encoding="cp1252"'), ("utf-8", "latin-1", "leave encoding= out"),
     ("utf-8", "cp1252", "leave encoding= out"), ("utf-8", None, ""), ("cp1252", "cp1252", "")],
)  # fmt: skip
def test_an_encoding_that_only_cells_show_is_named(tmp_path, capsys, written, read, says):
    path = tmp_path / "d.csv"
    path.write_bytes("name,x\nM\xfcller,1\nGr\xfcn,2\nAne,3\n".encode(written))
    data = path if read is None else dp.read_csv(path, encoding=read)
    dp.inspect_source(data, dp.Schema(name=dp.Levels(["Müller", "Ann"]), x=dp.Real(0, 9)))
    out = capsys.readouterr().out
    assert "'Ane' 1" in out and (says in out if says else "UTF-8" not in out)


def test_types_that_cannot_match_are_said(capsys):
    frame = pd.DataFrame({"sex": [1, 2], "age": [-9.0, np.nan], "born": [3, 4]})
    dp.inspect_source(SCHEMA.restrict(["sex", "age", "born"]).attach(frame))
    text = capsys.readouterr().out
    assert counts(text)["age"] == (2, 0, 0, 0)
    assert "none of the levels" in text and "dp.Date needs dates or text" in text
    with pytest.raises(RequestError, match="schema"):
        dp.inspect_source({"a": [1]})
    with pytest.raises(SourceError, match="not here"):
        dp.inspect_source(dp.Elsewhere({"a": "numeric"}, 5, lambda packed: []), {"a": dp.Real(0, 1)})


def test_no_budget_is_charged(capsys):
    budget = dp.Budget(eps=1, delta=1e-6)
    with budget:
        assert dp.inspect_source({"a": [1, 2]}, {"a": dp.Real(0, 1)}) is None
    assert not len(budget.charges)


def test_a_study_is_inspected(tmp_path, capsys):
    (tmp_path / "raw.csv").write_text(RAW)
    (tmp_path / "study.toml").write_text(
        '[study]\ntitle = "t"\n[data]\nn = 5\nsep = ";"\ndecimal = ","\n'
        "[budget]\neps = 1.0\ndelta = 1e-6\n"
        '[[release]]\nname = "a"\nverb = "mean"\nformula = "age ~ 1"\nshare = 1.0\n'
        + "".join(f"[schema.{x[1:]}\n" if x.startswith("[") else f"{x}\n" for x in SCHEMA.to_toml().splitlines())
    )  # fmt: skip
    before = sorted(tmp_path.iterdir())
    assert main(["study", "inspect", str(tmp_path / "study.toml"), "--data", str(tmp_path / "raw.csv")]) == 0
    assert counts(capsys.readouterr().out) == WANT
    assert sorted(tmp_path.iterdir()) == before
