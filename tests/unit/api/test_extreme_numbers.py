"""Types and numbers that are out of reach get an error of this package, before the charge."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import DPModelsError, DPModelsWarning, RequestError, SchemaError, SourceError

BOUNDS = {"x": (-1.0, 1.0), "y": (-1.0, 1.0)}
EVENT = dp.Schema(x=dp.Real(-1, 1), y=dp.Levels(["no", "yes"]))
METHODS = [
    ("dp_ols", "ssp", "y ~ x", {}),
    ("dp_ols", "gptr", "y ~ x", {}),
    ("dp_ols", "ops", "y ~ x", {}),
    ("dp_ols", "drcl", "y ~ x", {}),
    ("dp_glm", "objpert", "y ~ x", {"schema": EVENT}),
    ("dp_mean", "ptr", "y ~ 1", {}),
    ("dp_moments", "ssp", "x + y ~ 1", {}),
    ("dp_table", "joint", "y ~ 1", {}),
]


@pytest.fixture(autouse=True)
def no_advice():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPModelsWarning)
        yield


@pytest.mark.parametrize(("verb", "method", "formula", "options"), METHODS)
@pytest.mark.parametrize("eps", [1e-300, 0.3, 1e300])
@pytest.mark.parametrize("delta", [1e-300, 1.0 - 1e-16])
def test_a_plan_of_extreme_numbers_is_made_or_refused(verb, method, formula, options, eps, delta):
    """ZeroDivisionError, OverflowError, IndexError and ValueError had come out of twelve plans."""
    given = options or {"bounds": BOUNDS}
    for unit in ({}, {"unit": "id", "units": 20, "max_rows": 3}):
        try:
            plan = dp.plan(formula, verb=verb, method=method, n=12, eps=eps, delta=delta, **given,
                           **unit)  # fmt: skip
        except DPModelsError as error:
            assert "internal" not in str(error)
        else:
            assert plan.guarantee.eps == eps


def test_the_message_says_which_numbers_and_that_nothing_was_charged():
    with pytest.raises(RequestError, match=r"eps= and delta= are too extreme.*Nothing was read"):
        dp.plan("y ~ x", bounds=BOUNDS, method="gptr", n=12, eps=1000, delta=1e-300, unit="id",
                units=20, max_rows=3)  # fmt: skip


def test_an_estimate_that_cannot_be_made_says_that_the_charge_stands(backend_with):
    def singular(plan, release):
        return np.linalg.inv(np.zeros((2, 2)))

    backend_with("dp_mean", "clipped", estimate=singular)
    budget = dp.Budget(eps=2, delta=1e-5)
    with pytest.raises(RequestError, match=r"Singular matrix.*The charge stands"):
        dp.dp_mean("y ~ 1", pd.DataFrame({"y": np.zeros(50)}), eps=1, delta=1e-6,
                   bounds={"y": (-1, 1)}, budget=budget)  # fmt: skip
    assert len(budget.charges) == 1


def test_a_fault_of_the_package_is_not_blamed_on_the_numbers(backend_with):
    def wrong(request, design, n):
        raise ValueError("a bug")

    backend_with("dp_mean", "clipped", plan=wrong)
    with pytest.raises(ValueError, match=r"^a bug$"):
        dp.plan("y ~ 1", verb="dp_mean", bounds=BOUNDS, n=10, eps=1, delta=1e-6)


@pytest.mark.parametrize("width", [5e-324, 1e-200])
def test_a_range_that_floats_cannot_scale_is_refused(width):
    with pytest.raises(SchemaError, match=r"narrower than floating point.*Change the unit"):
        dp.Real(0.0, width)



@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", ["Int128", "Object"])
def test_types_that_arrow_does_not_have_are_named(name, lazy):
    """A raw ArrowInvalid, or a message that withheld the reason."""
    pl = pytest.importorskip("polars")
    if not hasattr(pl, name):
        pytest.skip(f"polars {pl.__version__} has no {name}")
    dtype = getattr(pl, name)
    frame = pl.DataFrame({"x": pl.Series("x", [None] * 20, dtype=dtype), "y": [0.5] * 20})
    with pytest.raises(SourceError, match=rf"'x' has the polars type {name}.*cast"):
        dp.dp_ols("y ~ x", frame.lazy() if lazy else frame, eps=1, delta=1e-6, bounds=BOUNDS)


def test_times_of_the_day_are_missing_whatever_their_nanoseconds():
    """One cell with nanoseconds, which Python has not, had made the private stage fail."""
    pa = pytest.importorskip("pyarrow")
    from dpmodels.formula.reading import coerce

    ticks = [1, 3_600_000_000_001, None]
    cells = pa.array(ticks, pa.int64()).cast(pa.time64("ns"))
    assert np.isnan(coerce(cells, dp.Real(0, 86_400))).all()
    short = pa.array([datetime.time(0, 1)], pa.time32("s"))
    assert np.isnan(coerce(short, dp.Real(0, 86_400))).all()
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"x": pl.Series("x", [1] * 40).cast(pl.Time), "y": [0.5] * 40})
    with pytest.raises(SchemaError, match="time of day"):
        dp.dp_ols("y ~ x", frame, eps=1, delta=1e-6, bounds=BOUNDS)


@pytest.mark.parametrize("kind", ["date32", "date64"])
def test_dates_of_arrow_in_pandas_are_read(kind):
    pa = pytest.importorskip("pyarrow")
    from dpmodels.formula.reading import coerce

    dates = pa.array([datetime.date(1970, 1, 2), None], getattr(pa, kind)())
    series = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([dates])))
    found = coerce(series, dp.Real(0, 1e6))
    assert found[0] == pytest.approx(86_400.0) and np.isnan(found[1])


def test_ids_of_arrow_types_that_pandas_has_no_name_for():
    pa = pytest.importorskip("pyarrow")
    from dpmodels.sources.people import count_people
    from dpmodels.sources.tasks import as_source
    from dpmodels.units import Person

    cells = pa.chunked_array([pa.array(["a", "b", "a"], pa.string_view())])
    frame = pd.DataFrame({"pid": pd.Series(pd.arrays.ArrowExtensionArray(cells))})
    assert count_people(as_source(frame), Person("pid")) == 2
