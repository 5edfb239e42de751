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
