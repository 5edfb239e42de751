"""Few and true words: three notes by weight, and marks of rows."""

import re

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.results.summary import SHOWN, notes_of

pytestmark = pytest.mark.usefixtures("quiet")
BOUNDS = {"x": (-1, 1), "z": (0, 2), "w": (0, 1), "y": (-5, 7)}


def even(n, seed):
    """Columns without long rows: uniform, a coin, a third group of three."""
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({
        "x": rng.uniform(-1, 1, n), "z": rng.uniform(0, 2, n), "w": rng.integers(0, 2, n) * 1.0,
    })  # fmt: skip
    d["y"] = 1 + d["x"] + 0.5 * d["w"] + rng.normal(0, 0.7, n)
    return d


def test_at_most_three_notes_and_all_of_them_when_asked():
    fit = dp.dp_ols("y ~ x + z", even(3000, 1), eps=1, delta=1e-6, bounds=BOUNDS, seed=1)
    every = notes_of(fit._record)
    assert len(every) > SHOWN == 3 and fit.notes == tuple(map(str, every))
    assert fit.notes.records == every and list(fit.notes.to_frame()["code"]) == [n.code for n in every]
    short, full = str(fit.summary()), str(fit.summary(full=True))
    assert "[3]" in short and "[4]" not in short and f"[{len(every)}]" in full
    assert f"({len(every) - 3} more notes: summary(full=True).)" in " ".join(short.split())
    assert "more notes" not in full
    for fmt in ("html", "tex", "md"):
        assert "more notes" in " ".join(str(fit.summary(fmt)).split())


def test_a_condition_of_the_guarantee_comes_first():
    d = even(2000, 1)
    fit = dp.dp_eptr(lambda x: [x.mean()], lambda x: 1e6, 2 / 2000, "x ~ 1", d, eps=1, delta=1e-6,
                     bounds={"x": (-1, 1)}, seed=1)  # fmt: skip
    assert fit.notes[0].startswith("The guarantee holds if")
    assert fit.notes[0] in " ".join(str(fit.summary()).split())
    people = pd.DataFrame({**d, "patient_id": np.arange(2000) // 2})
    fit = dp.dp_ols("y ~ x", people, eps=1, delta=1e-6, bounds=BOUNDS, seed=1)
    assert "patient_id looks like a person identifier" in " ".join(str(fit.summary()).split())


def test_what_limits_a_fit_comes_before_what_explains_it():
    d = even(300, 2)
    d["g"] = np.where(np.arange(300) < 3, "rare", "common")
    schema = dp.Schema(g=dp.Levels(["common", "rare"]), x=(-1, 1), y=(-5, 7))
    fit = dp.dp_ols("y ~ x + g", d, eps=0.3, delta=1e-6, schema=schema, seed=1, scoring=True)
    gone = fit._record.estimate.untested
    assert gone is not None and gone.any()
    assert {"fit.mostly_noise", "test.too_noisy"} & {note.code for note in fit.notes.records[:2]}
    text = str(fit.summary())
    assert "n  not tested (see the notes)" in text and "n/d" in text


def test_nothing_says_p_of_what_is_not_determined():
    """A term's p of 2e-10 had stood beside "not determined"."""
    d = even(300, 2)
    d["g"] = np.where(np.arange(300) < 3, "rare", "common")
    schema = dp.Schema(g=dp.Levels(["common", "rare"]), x=(-1, 1), y=(-5, 7))
    fit = dp.dp_ols("y ~ x + g", d, eps=0.3, delta=1e-6, schema=schema, seed=1, scoring=True)
    names = [n for n, u in zip(fit.params.index, fit._record.estimate.untested, strict=True) if u]
    for name in names:
        assert np.isnan(fit.pvalues[name]) and np.isnan(fit.wald_test([name]).pvalue)
        assert np.isnan(fit.contrast({name: 1.0}).pvalue[0])
    means = " ".join(str(fit.emmeans("g")).split())
    assert "n/d: not determined or not to be tested" in means and "g = rare" in means
    table = dp.anova(fit)
    assert "not tested" in str(table) or not table.rows_
    assert np.isfinite(fit.conf_int().to_numpy()).all()


@pytest.mark.parametrize(
    ("formula", "options", "says"),
    [
        ("y ~ x", {}, None),
        ("y ~ x - 1", {}, "without an intercept"),
        ("y ~ x", {"weights": "w"}, "weighted rows"),
        ("y ~ x", {"unit": "pid"}, "of people"),
    ],
)
def test_nothing_was_spent_only_where_nothing_was(formula, options, says):
    """R-squared follows from what is released: where it is not given, the reason is another."""
    d = even(3000, 4)
    d["pid"], d["w"] = np.arange(3000) // 2, 0.5
    fit = dp.dp_ols(formula, d, eps=1, delta=1e-6, bounds=BOUNDS, seed=1, **options)
    (spent,) = [str(n) for n in fit.notes.records if n.code == "output.absent"]
    assert "R-squared" not in spent and "residuals" in spent
    other = [str(n) for n in fit.notes.records if n.code == "output.not_derived"]
    assert not other if says is None else says in other[0]
    call = {"method": "eptr", "scoring": False, "bounds": BOUNDS}
    eptr = dp.dp_ols("y ~ x", d, eps=1, delta=1e-6, seed=1, **call)
    assert any("Not released by this method: R-squared" in n for n in eptr.notes) or not eptr.released


def test_one_number_of_decimals_a_column():
    d = even(3000, 5)
    d["y"] *= 1000
    fit = dp.dp_ols("y ~ x + z", d, eps=1, delta=1e-6, bounds={**BOUNDS, "y": (-5000, 7000)},
                    seed=1)  # fmt: skip
    table = fit.summary().table()
    for k, column in enumerate(table.columns):
        if column.label in ("Estimate", "total", "sampling", "privacy", "2.5 %", "97.5 %"):
            cells = [r.cells[k] for r in table.rows if r.cells and not r.span]
            assert len({len(c.partition(".")[2]) for c in cells}) == 1, column.label
    # no finer than a hundredth of the smallest error
    least = fit.errors()["error"].min()
    shown = [r.cells[1] for r in table.rows if r.cells and not r.span]
    assert 10.0 ** -len(shown[0].partition(".")[2]) >= least / 1000


def test_a_short_page_has_one_sentence_a_note_and_the_share_of_rows_that_count():
    d = even(6000, 7)
    d.loc[d.index[:1500], "x"] = np.nan
    fit = dp.dp_ols("y ~ x + z", d, eps=1, delta=1e-6, bounds=BOUNDS, seed=1)
    table = fit.summary().table()
    facts = dict((*table.facts, *table.aside))
    used = re.fullmatch(r"(\d \d{3}) of 6 000 \(noisy, \+- \d+\)", facts["Rows used"])
    assert used and abs(int(used[1].replace(" ", "")) - 4500) < 300 and "Row norm bound" not in facts
    assert "Reply" not in facts and "Split, %" not in facts
    assert abs(fit.stats["complete_share"] - 0.75) < 4 * fit.stats["complete_share_se"]
    bare = [note.partition(" (")[0] for note in table.notes]
    assert len(bare) <= 3 and all(". " not in note for note in bare)
    full = fit.summary(full=True).table()
    assert {"Row norm bound", "Split, %"} <= set(dict((*full.facts, *full.aside)))
    at = [column.label for column in table.columns].index("Bias <=")
    shown = [float(row.cells[at]) for row in table.rows]
    assert shown == pytest.approx(fit.bias_bound.to_numpy(), abs=1e-3)
