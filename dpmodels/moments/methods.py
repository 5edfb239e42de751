"""Methods of this room, as data."""

from dataclasses import replace

from dpmodels.registry import Method, Option, register_method
from dpmodels.results.kinds import Kind, register_kind

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
_VCOV = Option(
    "vcov",
    "standard errors: any variances ('hetero': HC1 sandwich) or one residual variance ('iid'); "
    "None: 'hetero' with scoring, 'iid' with moments only, where 'hetero' is one more release",
    None,
    str,
    choices=("iid", "hetero"),
    other_words={
        **dict.fromkeys(
            ("hc0", "hc1", "hc2", "hc3", "robust", "white", "sandwich", "heteroskedastic",
             "heteroscedastic"), "hetero",
        ),
        **dict.fromkeys(("nonrobust", "classical", "standard", "homoskedastic", "model"), "iid"),
    },
)  # fmt: skip
_SCORING = Option(
    "scoring",
    "end with private Fisher scoring, on which honest intervals rest, or with moments alone; "
    "None: by a public rule, printed",
    None,
    bool,
)
_GUESS = Option("n_guess", "public guess of the row count (add-remove)", None, int, lower=0)
_ORDER = Option(
    "public_order",
    "say that the order of the rows tells nothing of their cells (it is not sorted by one, say): "
    "the first of two stages of a large table may then read a part of the rows",
    False,
    bool,
)
_SHARE = Option(
    "bounds_share", "share of the budget that buys ranges", 0.15, float, lower=0.0, upper=1.0
)

_SHRINK = Option("shrink", "shrink the public moments to their diagonal; None: by rule", None, bool)
_PUBLIC_RADIUS = Option(
    "radius",
    "radius of the rows: a number, 'loo', 'paper'; None: by rule",
    None,
    (float, str),
    choices=("loo", "paper"),
    lower=0.0,
)
_PUBLISHED = (
    Option("eta", "failure probability of the truncation radius", 0.05, float, lower=0.0),
    Option("rho", "total zCDP budget; eps must cover it", None, float, lower=0.0),
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
            replace(_PHI, default=0.5),
            _RADIUS,
            _ERRORS,
            _VCOV,
            _SCORING,
            _SHARE,
            _GUESS,
            _ORDER,
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
    _SHRINK,
    Option("combine", "combine with the public-only fit by precision", False, bool),
    _RIDGE,
    _PHI,
    _PUBLIC_RADIUS,
    _ERRORS,
    _VCOV,
    _SCORING,
    _GUESS,
)

_PMT = "Enhancing Differentially Private Linear Regression via Public Second-Moment"
register_method(
    Method(
        name="pmt",
        verb="dp_ols",
        title="least squares whitened by public moments",
        backend="dpmodels.moments.pmt",
        needs=("public data", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("weights", "public"),
        reference=f"after '{_PMT}'; joint whitening, radii and stages: dpmodels/moments/theory.md",
        options=_PUBLIC_OPTIONS,
    )
)

_ADASSP = "Wang 2018, Revisiting differentially private linear regression"
register_method(
    Method(
        name="adassp",
        verb="dp_ols",
        title="AdaSSP with exact Gaussian accounting",
        backend="dpmodels.moments.adassp",
        needs=("delta > 0", "ranges"),
        relations=("replace", "add-remove"),
        accepts=("weights",),
        inference="no",
        privacy_se="unavailable",
        reference=_ADASSP,
        options=(_SHARE,),
    )
)
_COMPARED = (
    Method(
        name="pmt_paper",
        verb="dp_ols",
        title="PMT as published (Algorithm 3)",
        backend="dpmodels.moments.paper",
        needs=("delta > 0", "public data"),
        accepts=("weights", "public"),
        reference=_PMT,
        options=_PUBLISHED,
    ),
    Method(
        name="jl",
        verb="dp_ols",
        title="Gaussian sketch",
        backend="dpmodels.moments.jl",
        needs=("delta > 0", "declared ranges"),
        accepts=("weights",),
        reference="Sheffet 2017, Differentially private ordinary least squares",
        options=(Option("rows", "rows of the sketch", 500, int, lower=0),),
    ),
    Method(
        name="dpgd",
        verb="dp_ols",
        title="noisy gradient descent",
        backend="dpmodels.moments.dpgd",
        needs=("delta > 0", "ranges", "several passes"),
        relations=("replace", "add-remove"),
        accepts=("weights",),
        reference="after Cai, Wang and Zhang 2021, The cost of privacy",
        options=(
            Option("iterations", "full-batch steps", 30, int, lower=1),
            Option("step", "step size", 0.5, float, lower=0.0),
            _SHARE,
            _GUESS,
        ),
    ),
    Method(
        name="functional",
        verb="dp_ols",
        title="functional mechanism",
        backend="dpmodels.moments.functional",
        needs=("declared ranges",),
        accepts=("weights",),
        reference="Zhang, Zhang, Xiao, Yang and Winslett 2012, Functional mechanism",
    ),
    Method(
        name="outpert",
        verb="dp_ols",
        title="output perturbation",
        backend="dpmodels.moments.outpert",
        needs=("delta > 0", "ranges"),
        accepts=("weights",),
        reference="after Chaudhuri, Monteleoni and Sarwate 2011",
        options=(_SHARE,),
    ),
)
for _method in _COMPARED:
    register_method(
        replace(_method, inference="no", privacy_se="unavailable", comparison_only=True)
    )

register_method(
    Method(
        name="joint",
        verb="dp_moments",
        title="noisy second moments",
        backend="dpmodels.moments.second",
        needs=("ranges",),
        relations=("replace", "add-remove"),
        inference="privacy part only",
        privacy_se="public",
        reference="Blum, Dwork, McSherry and Nissim 2005; dpmodels/moments/theory.md",
        options=(_SHARE, _GUESS),
    )
)
register_method(
    Method(
        name="pmt",
        verb="dp_moments",
        title="second moments of rows whitened by public ones",
        backend="dpmodels.moments.second_public",
        needs=("public data", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("public",),
        inference="privacy part only",
        privacy_se="public",
        reference=f"after '{_PMT}'; joint whitening, radii and stages: dpmodels/moments/theory.md",
        options=(_STAGES, _SHRINK, _PHI, _PUBLIC_RADIUS, _GUESS),
    )
)
register_method(
    Method(
        name="pmt_paper",
        verb="dp_moments",
        title="PMT second moments as published (Algorithm 2)",
        backend="dpmodels.moments.second_paper",
        needs=("delta > 0", "public data"),
        accepts=("public",),
        inference="privacy part only",
        privacy_se="public",
        comparison_only=True,
        reference=_PMT,
        options=_PUBLISHED,
    )
)
register_kind(
    Kind(
        verb="dp_moments",
        title="second moments",
        predict="",
        estimates="Moment",
        count="Moments",
        absent=("sampling errors",),
    )
)
