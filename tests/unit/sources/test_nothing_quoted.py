"""Messages never quote rows: text, lines and names that are given where a path is meant."""

import io
import traceback

import numpy as np
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError

SECRET = "Ann Secret"
ROWS = "name,y,x\n" + f"{SECRET},0.637,0.270\n" * 20
LONG = SECRET + "x" * 5000
GIVEN = {
    "text": lambda: ROWS, "one line": lambda: LONG, "short": lambda: f"{SECRET}\n1,2",
    "bytes": lambda: ROWS.encode(), "null": lambda: f"{SECRET}\0",
    "long name": lambda: SECRET * 30,
}  # fmt: skip
LISTED = {
    "names": lambda: [SECRET, "Bob"], "lines": lambda: ROWS.splitlines(), "file": lambda: io.StringIO(ROWS),
    "iterator": lambda: iter([SECRET, "0.637,0.270"]), "generator": lambda: (x for x in [SECRET]),
    "maker": lambda: lambda: iter([SECRET]), "tuple": lambda: (SECRET, 0.637),
    "mixed": lambda: [{"y": [1.0], "x": [2.0]}, SECRET], "records": lambda: [{"name": SECRET}],
    "bytes file": lambda: io.BytesIO(ROWS.encode()),
}  # fmt: skip


def _refused(call):
    with pytest.raises(DPModelsError) as said:
        call()
    error = said.value
    text = "".join(traceback.format_exception(error))
    whole = text[text.rindex(type(error).__name__) :]
    assert len(str(error)) < 800
    assert error.__context__ is None or error.__suppress_context__
    for part in (SECRET, "0.637", "0.270"):
        assert part not in str(error)
        assert part not in whole


PAY = {"eps": 1, "delta": 1e-6, "bounds": {"y": (0, 1), "x": (0, 1)}}


@pytest.mark.parametrize("how", [*GIVEN, *LISTED])
def test_tables(how):
    made = {**GIVEN, **LISTED}[how]
    _refused(lambda: dp.dp_ols("y ~ x", made(), **PAY))
    _refused(lambda: dp.dp_release("~ y + x", made(), **PAY))
    rng = np.random.default_rng(1)
    data = {"y": rng.uniform(size=500), "x": rng.uniform(size=500)}
    _refused(lambda: dp.dp_ols("y ~ x", data, method="pmt", public=made(), **PAY))
    fit = dp.dp_ols("y ~ x", data, **{**PAY, "eps": 50})
    _refused(lambda: fit.diagnose(made(), eps=1, delta=1e-6))
    _refused(lambda: fit.score(made(), eps=1, delta=1e-6))


@pytest.mark.parametrize("how", GIVEN)
def test_other_paths(how):
    given = GIVEN[how]()
    _refused(lambda: dp.load(given))
    _refused(lambda: dp.load_release(given))
    _refused(lambda: dp.Budget.open(given, eps=1, delta=1e-6))
    _refused(lambda: dp.Budget.open_readonly(given))
    _refused(lambda: dp.Schema.load(given))
    _refused(lambda: dp.Schema(y=dp.Real(0, 1)).save(given))
    _refused(lambda: dp.Study.read(given))


def test_a_plausible_path_is_named():
    with pytest.raises(DPModelsError, match=r"no file 'study\.csv'"):
        dp.dp_ols("y ~ x", "study.csv", **PAY)
