"""Plain lines are streamed; whatever stands in a file, its rows are those of line by line."""

import random

import numpy as np
import pytest

from dpmodels.formula.reading import coerce_all
from dpmodels.sources import lines
from dpmodels.variables import Levels, Real

pytest.importorskip("pyarrow")

KINDS = {"x": Real(-9, 9), "y": Real(-9, 9), "g": Levels(["u", "v", "NA"])}
USUAL = ("1.5", "-2", "3e-2", "0.1", "", "7")
ODD = ("NA", "nan", "-NaN", "inf", " 1 ", '"2"', '"a""b"', "text", "1,2", "\r", "a\rb", "\0", "é",
       "\ufeff1", '"', "1e999", "#N/A", "null", "0x1p3", "1_0")  # fmt: skip


def by_lines(path, names, rows, numbers):
    """The columns of every part, each read as a whole."""
    with lines.opened_bytes(path) as file:
        header = lines.header_of(file, path.name)
        for block in lines._whole_lines(file, rows):
            yield lines._columns(block, header, names, numbers, lines.PLAIN)


def cells(parts, names):
    kinds = {name: KINDS[name] for name in names}
    return [coerce_all(part, kinds) for part in parts]


def written(path, rng, odd, rows):
    """Write a file of usual lines with an odd cell, or an odd line, here and there."""
    out = []
    for _ in range(rows):
        line = [rng.choice(USUAL), rng.choice(USUAL), rng.choice("uvw")]
        if rng.random() < odd:
            line[rng.randrange(3)] = rng.choice(ODD)
        text = ",".join(line)
        if rng.random() < odd / 4:
            text = rng.choice(["", "1", "1,2", "1,2,u,9", "," * 5, "x" * 300])
        out.append(text + ("\r\n" if rng.random() < odd / 4 else "\n"))
    text = "x,y,g\n" + "".join(out)
    path.write_bytes((text if rng.random() < 0.5 else text.rstrip("\n")).encode())


@pytest.mark.parametrize("odd", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("names", [("x", "y"), ("y", "g")])
def test_rows_are_those_of_line_by_line(tmp_path, monkeypatch, odd, names):
    rng, path = random.Random(7), tmp_path / "t.csv"
    for _ in range(60):
        monkeypatch.setattr(lines, "_BYTES", rng.choice([64, 97, 1000, 1 << 20]))
        rows = rng.choice([3, 10, 64])
        written(path, rng, odd, rng.choice([0, 1, rows, 5 * rows, 100]))
        numbers = [name for name in names if name != "g"]
        got = cells(lines.parts_of_file(path, names, rows, numbers), names)
        want = cells(by_lines(path, names, rows, numbers), names)
        assert [len(p[names[0]]) for p in got] == [len(p[names[0]]) for p in want]
        for a, b in zip(got, want, strict=True):
            for name in names:
                assert np.array_equal(a[name], b[name], equal_nan=True)


def test_a_plain_file_is_streamed_to_its_end(tmp_path, monkeypatch):
    """Also with missing cells of either kind: nothing is left to the slow way."""
    path = tmp_path / "t.csv"
    monkeypatch.setattr(lines, "_whole_lines", None)
    monkeypatch.setattr(lines, "_BYTES", 256)
    for cell in ("", "NA", "nan"):
        path.write_text("x,y,g\n" + f"1,2,u\n{cell},3,v\n" * 50)
        parts = cells(lines.parts_of_file(path, ["x", "y"], 30, ["x", "y"]), ["x", "y"])
        x = np.concatenate([p["x"] for p in parts])
        assert [len(p["x"]) for p in parts] == [30, 30, 30, 10]
        assert np.isnan(x[1::2]).all() and (x[::2] == 1).all()


def test_a_compressed_file(tmp_path):
    import gzip

    path = tmp_path / "t.csv.gz"
    text = "x,y\n" + "".join(f"{i},{i}\n" if i % 40 else f'"{i}",NA\n' for i in range(1, 200))
    path.write_bytes(gzip.compress(text.encode()))
    parts = cells(lines.parts_of_file(path, ["x"], 16, ["x"]), ["x"])
    assert np.concatenate([p["x"] for p in parts]).tolist() == list(range(1, 200))
