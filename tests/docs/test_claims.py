"""Claims of the pages about defaults, each against the code: the sentence stands, and it is true."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("quiet")
BOUNDS = {"x": (-1, 1), "y": (-4, 4)}


def default(function, argument):
    return inspect.signature(function).parameters[argument].default


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"x": rng.uniform(-1, 1, 2000)})
    d["y"] = d["x"] + rng.normal(0, 0.5, 2000)
    call = dict(eps=2, delta=1e-6, bounds=BOUNDS, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "fit": dp.dp_ols("y ~ x", d, **call),
            "moments": dp.dp_ols("y ~ x", d, scoring=False, **call),
            "pure": dp.dp_ols("y ~ x", d, **{**call, "delta": 0.0}),
            "points": dp.dp_ols("y ~ x", d, inference=False, **call),
        }


def said(fit):
    return " ".join(fit.notes)


CLAIMS = [
    ("docs/coming/statsmodels.md", r"errors are robust \(HC1\), unless `vcov=\"iid\"` is given or the fit uses "
     r"moments only \(`delta=0`, `scoring=False`\)",
     lambda f: "HC1" in said(f["fit"]) and "one residual variance" in said(f["moments"])
     and "HC1" not in said(f["pure"])),
    ("docs/coming/statsmodels.md", r"under `na=\"zero-row\"`, the default on data",
     lambda f: f["fit"]._record.call.na == "zero-row"),
    ("docs/coming/statsmodels.md", r"`dp.dp_mest\(f, df, loss=\"huber\"",
     lambda f: list(inspect.signature(dp.dp_mest).parameters)[:3] == ["formula", "data", "loss"]),
    ("docs/coming/statsmodels.md", r"`dp.dp_quantreg\(f, df, tau=.5",
     lambda f: default(dp.dp_quantreg, "tau") == 0.5),
    ("dpmodels/api/regressions.py", r"end by private Fisher scoring, their\s+default, errors are robust \(HC1\)",
     lambda f: f["fit"].facts.title == "least squares, private"),
    ("dpmodels/api/regressions.py", r"moments alone \(``scoring=False``,\s+``inference=False``, ``delta=0``\)",
     lambda f: {f[k].facts.title for k in ("moments", "pure", "points")}
     == {"least squares from noisy moments"}),
    ("docs/guides/verbs.md", r"\| `dp_ols` \| linear regression \| `ssp`",
     lambda f: f["fit"].method == "ssp"),
    ("docs/guides/verbs.md", r"\| `dp_mean` \| means \| `clipped`, `ptr`",
     lambda f: dp.methods().query("verb == 'dp_mean'")["method"].tolist() == ["clipped", "ptr"]),
    ("docs/guides/verbs.md", r"`dp_glm`.*\| `scoring`",
     lambda f: dp.methods().query("verb == 'dp_glm'")["method"].iloc[0] == "scoring"),
    ("docs/guides/intervals.md", r"`tidy\(\)` has them as `std_error`",
     lambda f: f["fit"].tidy()["std_error"].tolist() == f["fit"].errors()["std_error"].tolist()),
    ("docs/guides/intervals.md", r"`fit.bse`",
     lambda f: np.allclose(f["fit"].bse, f["fit"].errors()["std_error"])),
    ("README.md", r"`dpmodels/scoring/theory.md`, 4", lambda f: (ROOT / "dpmodels/scoring/theory.md").exists()),
    ("CHANGELOG.md", r"Tukey's by default", lambda f: default(type(f["fit"].emmeans({0: 0} and "x", at={"x": [0, 1]})).pairs, "adjust") is None
     and f["fit"].emmeans("x", at={"x": [0, 1]}).pairs().adjust == "tukey"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "sentence", "holds"), CLAIMS)
def test_a_claim_stands_and_is_true(fits, page, sentence, holds):
    assert re.search(sentence, (ROOT / page).read_text(encoding="utf-8")), (
        "the sentence has changed"
    )
    assert holds(fits)


def test_every_default_method_of_the_tables_is_the_first_of_the_registry():
    """Of the page that says which verb: the method in front is the one that runs."""
    text = (ROOT / "docs/guides/verbs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`dp_\w+`(?:, `dp_\w+`)*) \| [^|]+ \| `(\w+)`", text, re.M)
    assert len(rows) > 6
    registry = dp.methods()
    for verbs, method in rows:
        for verb in re.findall(r"dp_\w+", verbs):
            if verb in set(registry["verb"]):
                assert registry[registry["verb"] == verb]["method"].iloc[0] == method, verb


def test_the_pages_name_no_argument_that_a_verb_does_not_take():
    """Every ``dp.dp_x(..., name=`` of the guides is an argument or an option of some method."""
    options = {o for m in dp.methods()["method"].unique() for o in dp.methods(m)["option"]}
    common = {"level", "relation", "na", "on_no_reply", "engine", "subset", "weights", "n", "split",
              "units", "rows_per_unit", "sort", "max_rows", "unit", "event", "exposure", "offset"}  # fmt: skip
    for page in (ROOT / "docs").rglob("*.md"):
        for verb, inside in re.findall(
            r"dp\.(dp_\w+)\(([^()]*)\)", page.read_text(encoding="utf-8")
        ):
            known = {*inspect.signature(getattr(dp, verb)).parameters} | options | common
            for name in re.findall(r"(?<![\w\"'])(\w+)=(?!=)", re.sub(r"\"[^\"]*\"", "", inside)):
                assert name in known, (page.name, verb, name)


def test_the_table_of_methods_is_that_of_its_script():
    kept = (ROOT / "benchmarks/results/which_method.md").read_text(encoding="utf-8").splitlines()
    table = "\n".join(line for line in kept if line.startswith("|"))
    assert table in (ROOT / "docs/guides/verbs.md").read_text(encoding="utf-8")


def test_the_rows_that_a_release_needs_are_those_of_its_plan():
    page = (ROOT / "docs/guides/verbs.md").read_text(encoding="utf-8")
    bounds = {name: (0.0, 1.0) for name in "yxz"}
    for said, n, more in (
        ("| a row | 1 | 14 million |", 14_500_000, {"eps": 1}),
        ("| a row | 4 | 60 000 |", 60_000, {"eps": 4}),
        ('(`unit="attribute"`) | 2 | 14 000 |', 14_000, {"eps": 2, "unit": "attribute"}),
    ):
        assert said in page
        plan = {"delta": 1e-6, "bounds": bounds, "method": "drcl", **more}
        assert dp.plan("y ~ x + z", n=n, **plan).verdict == "fine"
        assert dp.plan("y ~ x + z", n=int(0.8 * n), **plan).verdict == "rough"
