"""The attributes maketables looks for, and maketables itself if it is installed."""

from __future__ import annotations

import numpy as np
import pytest


def test_attributes(fit):
    table = fit.__maketables_coef_table__
    assert table.index.name == "Coefficient" and {"b", "se", "p"} <= set(table.columns)
    np.testing.assert_array_equal(table["b"], fit.params)
    np.testing.assert_array_equal(table["se"], fit.bse)
    np.testing.assert_array_equal(table["p"], fit.pvalues)
    np.testing.assert_allclose(
        table["se"] ** 2, table["se_sampling"] ** 2 + table["se_privacy"] ** 2
    )
    np.testing.assert_array_equal(table[["ci95l", "ci95u"]], fit.conf_int(0.95))
    stat = {k: fit.__maketables_stat__(k) for k in fit.__maketables_default_stat_keys__}
    assert stat == {"N": 1599, "method": "eptr", "eps": 1.0, "delta": 1e-6}
    assert fit.__maketables_stat__("reply") == "released" and fit.__maketables_stat__("R2") is None
    assert fit.__maketables_depvar__ == "quality"
    assert set(fit.__maketables_default_stat_keys__) <= set(fit.__maketables_stat_labels__)
    assert fit.__maketables_vcov_info__ == {"vcov_type": "sampling + privacy"}
    assert fit.__maketables_fixef_string__ is None and fit.__maketables_var_labels__ is None
    assert not type(fit).__module__.startswith("statsmodels")


def test_maketables_itself(make_fit):
    maketables = pytest.importorskip("maketables")
    from dpmodels.interop.maketables import as_model

    fits = [as_model(make_fit()), as_model(make_fit(eps=2.0))]
    table = maketables.ETable(fits, coef_fmt="b:.3f \n (se_sampling:.3f, se_privacy:.3f)")
    latex = str(table.make(type="tex"))
    assert "0.341" in latex and "(0.016, 0.012)" in latex and "eptr" in latex
    assert "quality" in latex and "epsilon" in latex
    # a bare fit has the same table: the extractor of statsmodels is asked after ours
    bare = maketables.ETable(
        [make_fit(), make_fit(eps=2.0)], coef_fmt="b:.3f \n (se_sampling:.3f, se_privacy:.3f)"
    )
    assert str(bare.make(type="tex")) == latex
    make_fit()
    names = [type(e).__name__ for e in maketables.extractors._EXTRACTOR_REGISTRY]
    assert names.count("FitExtractor") == 1


def test_a_bare_fit_names_its_response_to_what_reads_statsmodels(fit):
    assert fit.endog_names == "quality"


def test_an_extractor_is_registered_where_a_fit_is_made(make_fit, monkeypatch):
    """With a stand-in for maketables, so that it is tested where that is not installed."""
    import sys
    import types

    stand_in = types.SimpleNamespace(_EXTRACTOR_REGISTRY=["statsmodels"], PluginExtractor=object)
    monkeypatch.setitem(sys.modules, "maketables.extractors", stand_in)
    one, _ = make_fit(), make_fit()
    first, *rest = stand_in._EXTRACTOR_REGISTRY
    assert first.can_handle(one) and not first.can_handle(object()) and rest == ["statsmodels"]


def test_as_model_shows_the_plug_in_only(fit):
    from dpmodels.interop.maketables import as_model

    model = as_model(fit)
    assert not hasattr(model, "params") and not hasattr(model, "bse")
    assert model.__maketables_coef_table__.equals(fit.__maketables_coef_table__)
