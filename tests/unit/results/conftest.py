"""Hand-made plans, releases and estimates: fits without a method and without data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpmodels.formula.build import build_design
from dpmodels.formula.schema import Schema
from dpmodels.planning import Plan, Purchase
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Step, mu_gdp
from dpmodels.records import Estimate, Release, Request
from dpmodels.registry import Method
from dpmodels.results.fit import Fit
from dpmodels.variables import Real

FORMULA = "quality ~ alcohol + volatile_acidity + sulphates + pH"
NAMES = ("Intercept", "alcohol", "volatile_acidity", "sulphates", "pH")
PARAMS = np.array([2.613, 0.3412, -1.238, 0.641, -0.304])
SAMPLING = np.array([0.2310, 0.0164, 0.0973, 0.1003, 0.1165])
PRIVACY = np.array([0.1180, 0.0121, 0.0652, 0.0887, 0.1502])
SHARES = {"scale": 0.20, "bound": 0.12, "coef": 0.60, "variance": 0.08}


def make_design(bought):
    """The real design of the formula; bought ranges filled in."""
    declared = {
        "quality": Real(0, 10),
        "alcohol": Real(8, 15),
        "volatile_acidity": Real(0, 1.6),
        "sulphates": Real(0, 2),
        "pH": Real(2.5, 4.5),
    }
    schema = Schema(**{k: Real() if k in bought else v for k, v in declared.items()})
    design = build_design(FORMULA, schema)
    ranges = {"alcohol": (8.0, 14.0), "pH": (2.75, 3.75)}
    return design.with_bounds({k: ranges[k] for k in bought}) if bought else design


def make_parts(
    *, eps=1.0, delta=1e-6, n=1599, seeded=False, inference=True, reply=True, why="test", bought=()
):
    method = Method("eptr", "dp_ols", "ePTR least squares", "none", privacy_se="public")
    request = Request("dp_ols", FORMULA, method, eps, delta, None, inference=inference)
    mu = mu_gdp(eps, delta * 0.9)
    steps = tuple(
        Step(
            name,
            Gaussian(mu * share**0.5),
            share=share,
            failure=delta * 0.1 if name == "bound" else 0.0,
            reply_test=name == "bound",
        )
        for name, share in SHARES.items()
    )
    guarantee = Guarantee(steps, eps, delta, seeded=seeded)
    design = make_design(bought)
    purchase = Purchase(tuple(bought), 0.1, delta * 0.05) if bought else None
    plan = Plan(request, design, n, steps, guarantee, SHARES, purchase=purchase)
    release = Release({}, guarantee, design, reply=reply, why="" if reply else why, detail=object())
    estimate = Estimate(
        NAMES,
        PARAMS if reply else np.full(5, np.nan),
        np.diag(SAMPLING**2) if inference and reply else None,
        np.diag(PRIVACY**2) if reply else None,
        released=reply,
        stats={"sigma": 0.65} if inference and reply else {},
    )
    return plan, release, estimate


@pytest.fixture
def parts():
    """The factory of (plan, release, estimate)."""
    return make_parts


@pytest.fixture
def make_fit():
    """The factory of fits; ``estimate=`` replaces fields of the estimate."""

    def make(estimate=None, **kwargs):
        plan, release, est = make_parts(**kwargs)
        return Fit(plan, release, replace(est, **(estimate or {})))

    return make


@pytest.fixture
def fit(make_fit):
    return make_fit()


@pytest.fixture
def wide_pages(monkeypatch):
    """Pages have the wide layout, whatever the terminal."""
    monkeypatch.setenv("COLUMNS", "100")
