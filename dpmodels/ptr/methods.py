"""Methods of this room, as data."""

from dpmodels.registry import Method, Option, register_method

register_method(
    Method(
        name="eptr",
        verb="dp_ols",
        title="ePTR least squares",
        backend="dpmodels.ptr.ols",
        needs=("delta > 0", "several passes"),
        relations=("replace",),
        inference="yes (auto form)",
        privacy_se="released",
        reference=(
            "Shen, Tong, Wang: Efficient Propose-Test-Release for Optimal Differentially "
            "Private Estimation"
        ),
        options=(
            Option(
                "c0",
                "smallest eigenvalue per row to be tested for; 'auto' releases a lower bound",
                "auto",
                (float, str),
                choices=("auto",),
                lower=0.0,
            ),
            Option(
                "variant",
                "'paper' runs the published constants (needs Rx, Rtheta, c0)",
                "default",
                str,
                choices=("default", "paper"),
            ),
            Option("whiten", "precondition the design by a private second moment", None, bool),
            Option(
                "clip",
                "bound rows by scaling x and y together ('scale', default) or x only ('project')",
                None,
                str,
                choices=("scale", "project"),
            ),
            Option("Rx", "bound on the row norm in the design's own units", None, float, lower=0.0),
            Option("Ry", "bound on |response|, with Rx", None, float, lower=0.0),
            Option("Rtheta", "public bound on the coefficient norm", None, float, lower=0.0),
            Option(
                "on_fail",
                "'no-reply', or 'ridge' to answer always with a shrunk estimate",
                "no-reply",
                str,
                choices=("no-reply", "ridge"),
            ),
            Option(
                "coin",
                "'logistic', or the 'sharp' integer coin (fixed c0)",
                "logistic",
                str,
                choices=("logistic", "sharp"),
            ),
            Option(
                "test_share",
                "share of eps for the test (fixed c0)",
                0.25,
                float,
                lower=0.0,
                upper=1.0,
            ),
            Option(
                "bounds_share",
                "share of the budget that buys ranges",
                0.15,
                float,
                lower=0.0,
                upper=1.0,
            ),
        ),
    )
)
