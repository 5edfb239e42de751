"""The registry: data that feeds validation, documentation and third parties."""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dpmodels as dp
from dpmodels import registry
from dpmodels.core import release as core
from dpmodels.core.sets import Marks
from dpmodels.planning import Plan
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Step, mu_gdp
from dpmodels.records import Estimate, Release


def entries():
    dp.methods()
    return list(registry._REGISTRY.values())


@pytest.mark.parametrize("method", entries(), ids=lambda m: f"{m.verb}-{m.name}")
def test_every_entry_is_complete(method):
    assert method.title and method.reference and method.needs
    assert set(method.relations) <= {"replace", "add-remove"}
    for backend in (method.backend, *(ending.backend for ending in method.endings)):
        for step in (backend.plan, backend.release, backend.estimate):
            assert callable(step)
    for option in method.options:
        assert option.doc, option.name
        assert option.validate(option.default) == option.default or option.default is None


def test_a_theory_note_stands_beside_every_method():
    for method in entries():
        note = Path(dp.__file__).parent / method.proof
        assert note.exists() and len(note.read_text(encoding="utf-8")) > 1200, method.proof


@pytest.mark.parametrize("missing", ["title", "reference", "proof"])
def test_an_entry_without_a_proof_or_a_reference_is_refused(missing):
    method = registry.resolve("dp_mean", "clipped")
    with pytest.raises(dp.errors.RequestError, match=f"has no {missing}"):
        registry.register_method(replace(method, name="mine", **{missing: ""}))
    assert "mine" not in registry.method_names("dp_mean")


def test_every_verb_is_public():
    for verb in {m.verb for m in entries()}:
        assert hasattr(dp, verb), verb
        assert "Privacy\n-------" in (inspect.getdoc(getattr(dp, verb)) or ""), verb


def complete_rows(design):
    """Return the release of the number of complete rows."""
    return core.Release("count", Marks(1), lambda z: np.isfinite(z[-1]), design)


@pytest.fixture
def toy():
    """A third party's method: the noisy count of rows as an intercept. Registered, then removed."""
    def plan(request, design, n):
        step = Step("count", Gaussian(mu_gdp(request.eps, request.delta)), share=1.0)
        guarantee = Guarantee((step,), request.eps, request.delta)
        return Plan(request, design, n, (step,), guarantee, detail=request["scale"])

    def release(plan, ask):
        count = core.answered(complete_rows(plan.design), ask).values[0]
        return Release({"count": count}, plan.guarantee, plan.design)

    def estimate(plan, release):
        value = np.full(plan.design.p, float(release.values["count"]) * plan.detail)
        return Estimate(plan.design.names, value)

    entry = dp.Method(
        name="toy",
        verb="dp_ols",
        title="Toy",
        backend=dp.Backend(plan, release, estimate),
        needs=("delta > 0",),
        options=(dp.Option("scale", "multiplies the count", 1.0, float, lower=0.0),),
        reference="nobody",
        proof="a count moves by one",
    )
    yield dp.register_method(entry)
    registry._REGISTRY.pop(("dp_ols", "toy"))


@pytest.mark.usefixtures("quiet")
def test_a_third_party_can_register_a_method(toy, table, bounds):
    fit = dp.dp_ols("y ~ a", table(5000), eps=1, delta=1e-6, bounds=bounds, method="toy", scale=2.0, seed=1)
    assert fit.params["a"] == pytest.approx(10_000, abs=200)
    assert fit.privacy.eps == 1
    assert "toy" in set(dp.methods()["method"])
    assert fit.method == "toy"
    with pytest.raises(ValueError, match="Did you mean 'scale'"):
        dp.dp_ols("y ~ a", table(50), eps=1, delta=1e-6, bounds=bounds, method="toy", scael=2.0)


def test_a_release_that_was_not_planned_is_refused(toy, table, bounds, monkeypatch):
    def twice(plan, ask):
        core.answered(complete_rows(plan.design), ask)
        core.answered(complete_rows(plan.design), ask)

    from dpmodels import _testing

    monkeypatch.setitem(
        registry._REGISTRY,
        ("dp_ols", "toy"),
        replace(toy, backend=replace(toy.backend, release=twice)),
    )
    token = _testing.RERAISE.set(True)
    try:
        with pytest.raises(dp.errors.PrivacyBugError, match="drawn already"):
            dp.dp_ols("y ~ a", table(50), eps=1, delta=1e-6, bounds=bounds, method="toy")
    finally:
        _testing.RERAISE.reset(token)


def test_the_registry_prints_in_full_on_100_columns():
    """A truncated frame hid what a method needs and whether it gives errors."""
    table = dp.methods()
    text = str(table)
    assert repr(table) == text and "..." not in text
    assert max(map(len, text.splitlines())) <= 100
    flat = " ".join(text.split())
    for row in table.to_dict("records"):
        for column in ("verb", "method", "title", "needs", "relations", "inference", "reference"):
            assert " ".join(str(row[column]).split()) in flat, (row["method"], column)
    html = table._repr_html_()
    assert all(row.split("&")[0][:20] in html for row in table["title"])
    assert "..." not in html


def test_it_is_a_frame_all_the_same():
    import pandas as pd

    table = dp.methods()
    want = ["verb", "method", "needs", "relations", "inference", "reference"]
    assert set(want) <= set(table.columns) and isinstance(table, pd.DataFrame)
    assert table["reference"].str.len().min() > 0
    some = table[table.verb == "dp_glm"]
    assert "objpert" in str(some) and "ssp" not in str(some).split("Options")[0]
    assert "verb" in str(table[["verb", "method"]])  # no page is made of these


@pytest.mark.parametrize("name", ["ssp", "objpert", "adaops", "drcl", "pmt"])
def test_options_print_in_full(name):
    table = dp.methods(name)
    text = str(table)
    assert max(map(len, text.splitlines())) <= 100 and "nan" not in text
    flat = " ".join(text.split())
    for row in table.to_dict("records"):
        assert f"{row['option']}={row['default']!r}" in flat
        assert " ".join(row["doc"].split()) in flat


def test_an_ending_is_chosen_by_its_rule_and_the_others_say_why_not():
    last, first = (dp.Backend(None, None, None, title=title) for title in ("last", "first"))
    method = registry.Method(
        "m", "dp_ols", "t", last, endings=(registry.Ending(first, lambda why, *_: why, "last only"),)
    )
    assert method.chosen("", None, None) == (first, ())
    assert method.chosen("no errors are asked for", None, 9) == (
        last,
        ("last only: no errors are asked for",),
    )


@pytest.mark.parametrize(("asked", "room"), [(None, "scored"), (False, "moments")])
def test_a_plan_says_what_goes_on_from_it(asked, room):
    schema = dp.Schema(x=dp.Real(0, 1), y=dp.Real(0, 1))
    plan = dp.plan("y ~ x", schema, n=1000, eps=1, delta=1e-6, method="ssp", scoring=asked)
    assert plan.backend.plan.__module__ == f"dpmodels.models.linear.{room}"
    assert any(r.startswith("moments only: ") for r in plan.reasons) == (room == "moments")


@pytest.mark.parametrize(("word", "method", "options"), [
    ("scoring", "ssp", {}), ("moments", "ssp", {"scoring": False}),
])  # fmt: skip
def test_methods_answer_to_the_words_of_the_field(word, method, options):
    bounds = {"y": (0, 1), "x": (0, 1)}
    common = {"n": 2000, "eps": 1, "delta": 1e-6, "verb": "dp_ols"}
    one, other = (
        dp.plan("y ~ x", bounds, method=m, **more, **common)
        for m, more in ((word, {}), (method, options))
    )
    assert one.steps == other.steps and one.request.method.name == method


def test_no_default_depends_on_which_module_was_imported_first():
    """A release of ``mean_ptr`` that was looked up first made Propose-Test-Release the default."""
    several = {verb for verb, modules in registry._MODULES.items() if len(modules) > 1}
    unnamed = {verb for verb in several if not registry.verb_of(verb).default}
    assert unnamed <= {"dp_quantile"}  # whose method follows the call
    assert registry.default_method("dp_mean") == "clipped"
