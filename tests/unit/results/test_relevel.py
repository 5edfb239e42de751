"""``fit.relevel`` recomputes the contrasts of a factor with another base level, at no cost."""

import numpy as np
import pytest

import dpmodels as dp

pytestmark = pytest.mark.filterwarnings("ignore::dpmodels.errors.DPModelsWarning")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    age = rng.choice(["14", "15", "16"], 20_000, p=[0.002, 0.5, 0.498])
    return {"age": age, "y": rng.uniform(-1, 1, 20_000) + (age == "16"), "x": rng.uniform(0, 1, 20_000)}


CALL = {
    "eps": 3, "delta": 1e-6, "seed": 2,
    "schema": dp.Schema(age=dp.Levels(["14", "15", "16"]), y=dp.Real(-1, 2), x=dp.Real(0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("formula", ["y ~ age + x", "y ~ C(age) + x"])
def test_contrasts_with_a_level_that_many_rows_have(rows, formula):
    """Every contrast is with the first level, which 40 of 20 000 rows have: all were useless."""
    fit = dp.dp_ols(formula, rows, **CALL)
    got = fit.relevel("age", "15").tidy().set_index("term")
    assert list(got.index) == ["age[14 - 15]", "age[16 - 15]"]
    names = [name for name in fit.params.index if "[" in name]
    b, V = fit.params[names].to_numpy(), fit.vcov().loc[names, names].to_numpy()
    assert got.loc["age[16 - 15]", "estimate"] == pytest.approx(b[1] - b[0])
    assert got.loc["age[14 - 15]", "estimate"] == pytest.approx(-b[0])
    direct = np.sqrt(V[0, 0] + V[1, 1] - 2 * V[0, 1])
    assert got.loc["age[16 - 15]", "std_error"] == pytest.approx(direct)
    assert got.loc["age[16 - 15]", "std_error"] < 0.5 * fit.bse[names[1]]
    assert abs(got.loc["age[16 - 15]", "estimate"] - 1) < 5 * direct


def test_what_has_no_other_base_is_refused(rows):
    fit = dp.dp_ols("y ~ age * x", rows, **CALL)
    for factor, base, said in (("age", "15", "interaction"), ("age", "17", "not a level"),
                               ("x", "15", "no factor"), ("agge", "15", "Did you mean 'age'")):  # fmt: skip
        with pytest.raises(dp.errors.RequestError, match=said):
            fit.relevel(factor, base)


def test_a_rare_base_is_named_and_no_other(rows):
    fit = dp.dp_ols("y ~ C(age) + x", rows, **CALL)
    note = next(str(note) for note in fit.notes if "few rows have" in str(note))
    assert "'14'" in note and "fit.relevel('age', '1" in note and "Treatment('1" in note
    fine = {**rows, "age": np.where(rows["age"] == "14", "15", rows["age"])}
    fine["age"][:6000] = "14"
    again = dp.dp_ols("y ~ C(age) + x", fine, **CALL)
    assert not any("few rows have" in str(note) for note in again.notes)
