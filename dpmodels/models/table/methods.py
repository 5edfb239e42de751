"""Methods of tables, quantiles and tests, as data."""

import functools

from dpmodels.models.table import nulls, quantiles, table, testing, weighted, weighted_quantiles
from dpmodels.models.weights import unweighted
from dpmodels.registry import BOUNDS_SHARE, Ending, Method, Option, register_method

_method = functools.partial(Method, proof="models/table/theory.md", needs=("one pass",))

register_method(
    _method(
        name="joint",
        verb="dp_table",
        title="Exact counts and sums, one joint release",
        backend=table.BACKEND,
        endings=(Ending(weighted.BACKEND, unweighted),),
        accepts=("weights", "design"),
        kept=True,
        privacy_se="public",
        foretells=True,
        reference="Hay, Rastogi, Miklau and Suciu (2010), consistency; Dwork et al. (2006)",
        options=(
            Option(
                "noise",
                "'auto': the narrower at the guarantee of the call, which the plan says",
                "auto",
                str,
                choices=("auto", "gaussian", "laplace", "geometric"),
            ),
            Option("quantiles", "quantiles of numbers, by group: [0.25, 0.5, 0.75]", None, object),
            Option("histogram", "equal bins of every number", None, int, lower=1, upper=10_001),
            Option(
                "suppress", "blank what rests on a smaller released count", None, float, lower=0.0
            ),
            BOUNDS_SHARE,
        ),
    )
)

_Q = Option("q", "quantiles: a number between 0 and 1, or a list", 0.5, object)
_POINTS = Option(
    "points", "most points of the public grid; None: 65536 (em), 4096 to 65536 by n (tree)", None,
    int, lower=1, upper=(1 << 18) + 1,
)  # fmt: skip

register_method(
    _method(
        name="em",
        verb="dp_quantile",
        title="Exponential mechanism on a grid",
        backend=quantiles.EM,
        kept=True,
        inference="intervals by two more draws",
        privacy_se="unavailable",
        reference="McSherry and Talwar (2007); Smith (2011)",
        options=(_Q, _POINTS, BOUNDS_SHARE),
    )
)
register_method(
    _method(
        name="tree",
        verb="dp_quantile",
        title="Noisy 4-way tree of counts",
        backend=quantiles.TREE,
        endings=(Ending(weighted_quantiles.WEIGHTED, unweighted),),
        accepts=("weights", "design"),
        kept=True,
        needs=("delta > 0", "one pass"),
        privacy_se="unavailable",
        reference="Hay, Rastogi, Miklau and Suciu (2010)",
        options=(_Q, _POINTS, BOUNDS_SHARE),
    )
)

_EFFECT = Option(
    "effect",
    "for plans: difference of means in the units of the variable, Cohen's w, a correlation, or "
    "the noncentrality of the public test",
    None, float, lower=0.0,
)  # fmt: skip
_TEST = Option("test", "which test; None: by the variables", None, object)

register_method(
    _method(
        name="score",
        verb="dp_test",
        title="Test of noisy sums",
        backend=testing.BACKEND,
        endings=(Ending(weighted_quantiles.RAO_SCOTT, unweighted),),
        accepts=("weights", "design"),
        kept=True,
        needs=("delta > 0", "one pass"),
        privacy_se="public",
        reference="Kifer and Rogers (2017), A new class of private chi-square tests",
        options=(
            _TEST,
            Option("mu0", "hypothesis of one mean", None, float),
            Option("p", "hypothesis of one category: shares, or that of the second level", None),
            _EFFECT,
            Option("sd", "for plans: standard deviation; None: a quarter of the range", None, float,
                   lower=0.0),
            Option("shares", "for plans: shares of the groups; None: equal", None, object),
            BOUNDS_SHARE,
        ),
    )
)  # fmt: skip
register_method(
    _method(
        name="subsample",
        verb="dp_test",
        title="Test of tests",
        backend=nulls.BACKEND,
        by_rows=True,
        needs=("one pass", "rows in memory"),
        privacy_se="public",
        reference="Kazan, Shi, Groce and Bray (2023), The test of tests",
        options=(
            _TEST,
            Option("parts", "parts of the rows; None: by power", None, int, lower=1),
            Option("a0", "level of the test in a part; None: by power", None, float, lower=0.0,
                   upper=1.0),
            Option("sides", "of the z test by whose power parts and a0 are chosen", 2, int,
                   lower=0, upper=3),
            _EFFECT,
        ),
    )
)  # fmt: skip
