"""``schema.update`` keeps the label of a variable whose new declaration has none."""

import pytest

import dpmodels as dp


def test_labels_are_kept():
    """It was lost with the old declaration."""
    schema = dp.Schema(
        x=dp.Real(0, 1, label="Tenure"), g=dp.Levels(["a", "b"], label="Group"), z=dp.Real(0, 1)
    )
    new = schema.update(x=dp.Real(0, 9), g=dp.Ordered(["a", "b", "c"]), z=dp.Real(0, 2, label="Z"))
    assert [new[name].label for name in new] == ["Tenure", "Group", "Z"]
    assert new["x"].upper == 9 and isinstance(new["g"], dp.Ordered)
    assert schema.update(x=(0, 3))["x"].label == "Tenure"
    assert schema.update({"x": dp.Real(0, 9, label="Years")})["x"].label == "Years"


@pytest.mark.usefixtures("quiet")
def test_degrees_of_freedom_are_whole():
    import numpy as np

    rows = {"y": np.linspace(0, 1, 900), "g": np.arange(900) % 3}
    fit = dp.dp_test("y ~ g", rows, eps=5, delta=1e-6, seed=1,
                     schema=dp.Schema(y=dp.Real(0, 1), g=dp.Levels([0, 1, 2])))  # fmt: skip
    line = next(x for x in str(fit.summary()).splitlines() if "Degrees of freedom" in x)
    assert line.split()[-1] == "2"
