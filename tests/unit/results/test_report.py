"""A report: one table in every format, written and read back; pictures aligned by name."""

import math
import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

LABELS = {"age": "Age in years", "z": "Outcome", "C(g)[T.b]": "Group B"}


@pytest.fixture(scope="module")
def fits():
    import warnings

    rng = np.random.default_rng(2)
    n = 4000
    data = pd.DataFrame({"age": rng.uniform(20, 60, n), "h": rng.uniform(-1, 1, n),
                         "g": rng.choice(list("ab"), n)})  # fmt: skip
    data["z"] = 0.05 * data["age"] + (data["g"] == "b") + rng.normal(0, 1, n)
    schema = dp.Schema(
        z=dp.Real(-4, 8), age=dp.Real(20, 60), h=dp.Real(-1, 1), g=dp.Levels(list("ab"))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = dp.dp_moments(
            "z + age + h + C(g) + h:C(g)", data, eps=4, delta=1e-6, schema=schema, seed=5
        )
    return [dp.dp_ols(f, m) for f in ("z ~ age", "z ~ age + C(g)", "z ~ age + h*C(g)")]


def test_one_payment_is_counted_once(fits):
    quiet = dp.etable(fits, type="text")
    assert "NOT PRIVATE" in quiet  # seeded; the composition of one release is its own
    from dataclasses import replace

    from dpmodels.results.fit import Fit
    from dpmodels.results.side_by_side import joint_line

    real = replace(fits[0].privacy, seeded=False)
    same = [Fit._of(replace(fit._record, guarantee=real)) for fit in fits]
    assert "Privacy of the table" in joint_line(same) and "add up" not in joint_line(same)


@pytest.mark.parametrize("suffix", ["tex", "html", "md", "txt"])
def test_a_file_of_each_format(fits, tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    dp.etable(
        fits, labels=LABELS, stars=True, stats=["nobs", "r_squared"], title="Wages", file=path
    )
    text = path.read_text(encoding="utf-8")
    assert "Age in years" in text and "Outcome" in text and "Wages" in text and "3999" not in text
    assert "4000" in text and f"{fits[0].params['age']:.3f}" in text.replace("\\", "")
    marks = {
        "html": "<!doctype html>",
        "tex": "\\toprule",
        "md": "|",
        "txt": "===",
    }
    assert marks[suffix] in text or suffix == "txt"


def test_a_word_file_is_read_back(fits, tmp_path):
    docx = pytest.importorskip("docx")
    path = tmp_path / "t.docx"
    table = dp.etable(fits, labels=LABELS, drop="Intercept", title="Wages", file=path)
    back = docx.Document(str(path))
    cells = [[c.text for c in row.cells] for row in back.tables[0].rows]
    first = next(row for row in cells if row[0] == "Age in years")
    age, error = fits[0].params["age"], fits[0].bse["age"]
    decimals = 1 - math.floor(math.log10(error))  # two digits of its own standard error
    assert first[1] == f"{age:.{max(decimals, 3)}f}" and len(first) == 4
    said = [p.text for p in back.paragraphs]
    assert said[0] == "Wages" and table.notes[-1] in said
    assert any("tcBorders" in c._tc.xml for c in back.tables[0].rows[0].cells)


def test_order_keep_and_drop(fits):
    def names(**kw):
        return [i for i in dp.etable(fits, type="df", stats=["nobs"], **kw).index if i][:-1]

    assert names(drop="Intercept")[0] == "age"
    assert names(keep=["age", "^h"]) == ["age", "h", "h:C(g)[T.b]"]
    assert names(order=["C(g)[T.b]"], drop="Intercept")[:2] == ["C(g)[T.b]", "age"]
    assert names(keep="h:", labels={"h": "Height", **LABELS}) == ["Height \u00d7 Group B"]
    for wrong in (dict(keep="agee"), dict(order=["q"]), dict(drop="(")):
        with pytest.raises(RequestError, match="is not a coefficient"):
            names(**wrong)
    with pytest.raises(RequestError, match="leave no coefficient"):
        names(keep="age", drop="age")


def test_stars_have_their_legend(fits):
    text = dp.etable(fits, type="text", stars=True)
    assert re.search(r"\d\*\*\*", text) and "Stars:" in text
    assert "Stars:" not in dp.etable(fits, type="text")


def test_a_file_that_cannot_be_is_refused_before_it_is_made(fits, tmp_path):
    for path, says in (
        ("t.pdf", "suffix gives the format"),
        ("t.htm", "Did you mean '.html'"),
        (3, "must be a path"),
    ):
        with pytest.raises(RequestError, match=says):
            dp.etable(fits, file=tmp_path / path if isinstance(path, str) else path)


def test_pictures_align_by_name_and_leave_room(fits):
    plt = pytest.importorskip("matplotlib.pyplot")
    long = {"age": "A very long label of a coefficient that would else push the picture away"}
    ax = dp.coef_plot(*fits, labels=long, order=["C(g)[T.b]"])
    ticks = [t.get_text() for t in ax.get_yticklabels()]
    assert ticks[0] == "C(g)[T.b]" and ticks[1].count("\n") == 2 and len(ticks) == 4
    ax.figure.canvas.draw()
    assert ax.get_position().width > 0.5
    rows = [c.get_offsets() for c in ax.collections if hasattr(c, "get_offsets")]
    assert rows is not None
    marks = [line for line in ax.lines if line.get_marker() == "o"]
    at = {}
    for line, fit in zip(marks, fits, strict=True):
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
            name = next(n for n, b in fit.params.items() if b == x)
            at.setdefault(name, []).append(round(y))
    assert all(len(set(rows)) == 1 for rows in at.values()) and len(at["age"]) == 3
    plt.close(ax.figure)
    with pytest.raises(RequestError, match="needs fits"):
        dp.coef_plot()
