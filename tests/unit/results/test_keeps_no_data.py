"""A fit holds no row: sizes do not grow with n, and a walk over it finds no array of length n."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

from dpmodels.results import Fit, load


def test_pickle_and_json_sizes_do_not_depend_on_n(make_fit):
    small, large = make_fit(n=1_000), make_fit(n=1_000_000)
    for size in (lambda f: len(pickle.dumps(f)), lambda f: len(f.to_json())):
        assert abs(size(small) - size(large)) <= 0.01 * size(small)


def test_pickle_round_trip(fit):
    again = pickle.loads(pickle.dumps(fit))
    assert str(again.summary()) == str(fit.summary())
    assert again.vcov().equals(fit.vcov()) and again.privacy == fit.privacy


def walk(root):
    """Every object reachable from a fit, modules, classes and functions left out."""
    import types

    seen, stack = {}, [root]
    skip = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
    while stack:
        thing = stack.pop()
        if id(thing) in seen or isinstance(thing, skip):
            continue
        seen[id(thing)] = thing
        stack += gc.get_referents(thing)
    return seen.values()


def test_no_array_or_sequence_of_length_n_is_reachable(parts):
    n = 50_021
    plan, release, estimate = parts(n=n)
    private = np.arange(float(n))
    object.__setattr__(release, "detail", {"rows": private})
    object.__setattr__(plan, "detail", [private])
    object.__setattr__(plan.request, "public", private)
    release.values["moments"] = private[:5]
    fit = Fit(plan, release, estimate)
    reached = list(walk(fit))
    assert any(thing is fit._record.estimate.params for thing in reached)  # the walk gets there
    assert not any(thing is private for thing in reached)
    for thing in reached:
        if isinstance(thing, np.ndarray):
            assert thing.size < 1000 and thing.base is None
    names = [name for name in dir(fit) if not name.startswith("__")]
    for name in names:
        value = getattr(fit, name, None)  # R-squared is not there in every fit
        if hasattr(value, "__len__") and not isinstance(value, str):
            assert len(value) < 1000, name


def test_options_that_are_objects_are_kept_by_name_only(parts):
    plan, release, estimate = parts()
    big = np.zeros(100_000)
    plan.request.options.update(loss=lambda u: big.sum() + u, prior=big, c0=0.25)
    fit = Fit(plan, release, estimate)
    assert fit.options["c0"] == 0.25
    assert isinstance(fit.options["loss"], str) and isinstance(fit.options["prior"], str)
    assert len(pickle.dumps(fit)) < 20_000
    assert len(fit.to_json()) < 20_000


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"reply": False},
        {"inference": False},
        {"bought": ("alcohol", "pH")},
        {"reply": False, "why": "ranges", "bought": ("alcohol", "pH")},
        {"seeded": True},
    ],
)
def test_json_round_trip_is_exact(make_fit, tmp_path, kwargs):
    fit = make_fit(**kwargs)
    path = tmp_path / "fit.json"
    text = fit.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    again = load(path)
    for name in ("params", "bse", "bse_sampling", "bse_privacy", "pvalues"):
        assert getattr(again, name).equals(getattr(fit, name)), name
    assert again.vcov().equals(fit.vcov())
    assert again.privacy == fit.privacy
    assert repr(again) == repr(fit)
    for fmt in ("text", "html", "tex", "md"):
        assert str(again.summary(fmt)) == str(fit.summary(fmt))
    assert again.to_json() == text
    assert Fit.from_dict(fit.to_dict()).to_json() == text
    assert again.design.names == fit.design.names
    assert (again.design.intervals() == fit.design.intervals()).all()


def test_json_that_is_not_ours_or_newer_is_refused(fit):
    from dpmodels.errors import RequestError

    for text in ("", "[1", "[]", "{}", '{"format": "other"}'):
        with pytest.raises(RequestError, match="not a saved dpmodels fit"):
            Fit.from_json(text)
    saved = fit.to_dict()
    saved["version"] = 99
    with pytest.raises(RequestError, match="format 99"):
        Fit.from_dict(saved)


def test_a_file_that_claims_more_privacy_than_its_steps_give_is_refused(fit):
    from dpmodels.errors import DamagedError

    saved = fit.to_dict()
    saved["guarantee"]["eps"] = 0.5
    with pytest.raises(DamagedError, match="steps"):
        Fit.from_dict(saved)
