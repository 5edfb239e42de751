"""Headers and saved files that are odd are refused by name and place."""

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError

PAY = {"eps": 1, "delta": 1e-6}
BOUNDS = {"y": (0, 1), "x": (0, 1)}


def test_a_header_with_a_name_twice(tmp_path):
    (tmp_path / "a.csv").write_text("y,x,x\n" + "0.1,0.2,0.3\n" * 50)
    with pytest.raises(DPModelsError, match="columns 2 and 3 of the header"):
        dp.dp_ols("y ~ x", tmp_path / "a.csv", bounds=BOUNDS, **PAY)


def test_a_file_without_a_line_feed(tmp_path):
    (tmp_path / "a.csv").write_text("0.1,0.2," * 200_000)
    with pytest.raises(DPModelsError, match="not a header"):
        dp.dp_ols("y ~ x", tmp_path / "a.csv", bounds=BOUNDS, **PAY)


def test_a_saved_number_of_many_digits(tmp_path):
    (tmp_path / "a.json").write_text("1" * 5000)
    with pytest.raises(DPModelsError):
        dp.load(tmp_path / "a.json")


def test_remedies_keep_the_model():
    data = {"y": np.linspace(0, 1, 200), "x": np.linspace(0, 1, 200)}
    with pytest.raises(DPModelsError) as said:
        dp.dp_ols("y ~ x + I(x**2", data, bounds=BOUNDS, **PAY)
    assert "x*2" not in str(said.value)
    assert "y ~ x + I(x**2)" in str(said.value)
    with pytest.raises(DPModelsError) as said:
        dp.dp_ols("y ~ csw(x, x)", data, bounds=BOUNDS, **PAY)
    assert "Did you mean" not in str(said.value)


def test_a_plan_takes_ticked_columns():
    plan = dp.plan("y ~ `a<b`", n=1000, bounds={"y": (0, 1), "a<b": (0, 1)}, **PAY)
    assert plan.design.names == ["Intercept", "a<b"] or "a<b" in plan.design.names


def test_headers_are_named_as_pandas_names_them(tmp_path):
    import pandas as pd

    from dpmodels.sources.tasks import as_source

    for line in ('a,b,,"x ""y""",d', "a, b,c", '"",x', "1,2.50,x", "a", "a,b,", '"x"y,z"w"'):
        (tmp_path / "a.csv").write_text(line + "\n" + "1,2,3,4,5\n")
        known = list(pd.read_csv(tmp_path / "a.csv", nrows=0, index_col=False).columns)
        assert list(as_source(tmp_path / "a.csv").kinds) == known


@pytest.mark.parametrize("arrow", [True, False])
def test_a_file_of_many_columns_makes_no_frame_of_them(tmp_path, monkeypatch, arrow):
    """What takes long is a Series for each column of the header: none is made."""
    import importlib.util

    import pandas as pd

    (tmp_path / "a.csv").write_text(
        ",".join(f"c{i}" for i in range(10_000)) + "\n" + (",".join(["0.5"] * 10_000) + "\n") * 60
    )
    made = []
    series = pd.Series.__init__
    monkeypatch.setattr(
        pd.Series, "__init__", lambda self, *a, **k: (made.append(1), series(self, *a, **k))[1]
    )
    found = importlib.util.find_spec
    if not arrow:
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name)
        )
    bounds = {"c0": (0, 1), "c1": (0, 1)}
    assert dp.dp_mean("c0 + c1 ~ 1", tmp_path / "a.csv", bounds=bounds, **PAY) is not None
    assert len(made) < 200
