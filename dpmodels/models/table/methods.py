"""Methods of tables, quantiles and tests, as data."""

from dpmodels.models.options import BOUNDS_SHARE
from dpmodels.registry import Method, Option, register_method

register_method(
    Method(
        name="joint",
        verb="dp_table",
        title="Exact counts and sums, one joint release",
        backend="dpmodels.models.table.table",
        needs=("one pass",),
        inference="yes",
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
    "points", "most points of the public grid; None: 65536 (em), 4096 (tree)", None, int,
    lower=1, upper=(1 << 18) + 1,
)  # fmt: skip

register_method(
    Method(
        name="em",
        verb="dp_quantile",
        title="Exponential mechanism on a grid",
        backend="dpmodels.models.table.quantile",
        needs=("one pass",),
        inference="intervals by two more draws",
        privacy_se="unavailable",
        reference="McSherry and Talwar (2007); Smith (2011)",
        options=(_Q, _POINTS, BOUNDS_SHARE),
    )
)
register_method(
    Method(
        name="tree",
        verb="dp_quantile",
        title="Noisy 4-way tree of counts",
        backend="dpmodels.models.table.quantile_tree",
        needs=("delta > 0", "one pass"),
        inference="yes",
        privacy_se="unavailable",
        reference="Hay, Rastogi, Miklau and Suciu (2010)",
        options=(_Q, _POINTS, BOUNDS_SHARE),
    )
)
