"""Methods of this room, as data."""

from dpmodels.registry import Method, Option, register_method

_STAGES = Option(
    "stages",
    "1, 2 or 'auto' (by a public rule)",
    "auto",
    (int, str),
    choices=("auto",),
    lower=0,
    upper=3,
)
_PHI = Option(
    "phi", "tolerated ratio of privacy to sampling variance (radius rule)", 0.1, float, lower=0.0
)
_RIDGE = Option(
    "ridge",
    "'floor': only where noise dominates; 'stein': by Stein's estimate of the loss; 'none'",
    "floor",
    str,
    choices=("floor", "stein", "none"),
)
_RADIUS = Option(
    "radius", "radius of the rows of the last stage; None: by rule", None, float, lower=0.0
)
_ERRORS = Option(
    "inference_method",
    "'delta' method, or parametric 'bootstrap' from released numbers",
    "delta",
    str,
    choices=("delta", "bootstrap"),
)
_GUESS = Option("n_guess", "public guess of the row count (add-remove)", None, int, lower=0)
_SHARE = Option(
    "bounds_share", "share of the budget that buys ranges", 0.15, float, lower=0.0, upper=1.0
)

register_method(
    Method(
        name="ssp",
        verb="dp_ols",
        title="least squares from noisy moments",
        backend="dpmodels.moments.ssp",
        needs=("ranges", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("weights",),
        reference=(
            "Vu and Slavkovic 2009; Dwork, Talwar, Thakurta and Zhang 2014; two stages: "
            "dpmodels/moments/theory.md"
        ),
        options=(
            _STAGES,
            Option(
                "query",
                "first release: rows in a 'ball', or separate bounds on x and y ('bounded')",
                "ball",
                str,
                choices=("ball", "bounded"),
            ),
            _RIDGE,
            _PHI,
            _RADIUS,
            _ERRORS,
            _SHARE,
            _GUESS,
        ),
    )
)

_PUBLIC_OPTIONS = (
    _STAGES,
    Option(
        "whitening",
        "'joint' with the response, or x and y 'separate' as published",
        "joint",
        str,
        choices=("joint", "separate"),
    ),
    Option("shrink", "shrink the public moments to their diagonal; None: by rule", None, bool),
    Option("combine", "combine with the public-only fit by precision", False, bool),
    _RIDGE,
    _PHI,
    Option(
        "radius",
        "radius of the rows: a number, 'loo', 'paper'; None: by rule",
        None,
        (float, str),
        choices=("loo", "paper"),
        lower=0.0,
    ),
    _ERRORS,
    _GUESS,
)

register_method(
    Method(
        name="pmt",
        verb="dp_ols",
        title="least squares whitened by public moments",
        backend="dpmodels.moments.pmt",
        needs=("public data", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("weights", "public"),
        reference=(
            "after 'Enhancing Differentially Private Linear Regression via Public Second-Moment'; "
            "joint whitening, radii and stages: dpmodels/moments/theory.md"
        ),
        options=_PUBLIC_OPTIONS,
    )
)
