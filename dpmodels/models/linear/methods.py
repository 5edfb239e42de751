"""Methods of linear regression, as data."""

from dataclasses import replace

from dpmodels.models.linear import compared, eptr, moments, pmt, posterior, scored
from dpmodels.registry import (
    BOUNDS_SHARE,
    GUESS,
    PERSON_WEIGHTS,
    PHI,
    PMT_PAPER,
    PUBLIC_ORDER,
    PUBLIC_RADIUS,
    PUBLISHED,
    SHRINK,
    STAGES,
    WORKING_RADIUS,
    Ending,
    Method,
    Option,
    automatic,
    one_of,
    positive,
    register_method,
    share,
)

_ERRORS = one_of(
    "inference_method",
    "'delta' method, or parametric 'bootstrap' from released numbers",
    "delta",
    "bootstrap",
)


_RADIUS = positive("radius", "radius of the rows of the last stage; None: by rule")

_RIDGE = one_of(
    "ridge",
    "'floor': only where noise dominates; 'stein': by Stein's estimate of the loss; 'none'",
    "floor",
    "stein",
    "none",
)

_SCORING = Option(
    "scoring",
    "end with private Fisher scoring, on which honest intervals rest, or with moments alone; "
    "None: by a public rule, printed",
    None,
    bool,
)


_RANGES = Option(
    "ranges",
    "whether declared ranges tell where values lie: 'uncertain' spends a part of the budget on "
    "the centre and scale of every number, for ranges that may be ten times too wide",
    "declared",
    str,
    choices=("declared", "uncertain"),
)
_VCOV = Option(
    "vcov",
    "standard errors: any variances ('hetero': HC1 sandwich) or one residual variance ('iid'); "
    "None: 'hetero' with scoring, 'iid' with moments only, where 'hetero' is one more release",
    None,
    str,
    choices=("iid", "hetero"),
    instead=dict.fromkeys(
        ("clus", "crv"),
        'errors by cluster are vcov={"CRV1": "village"} (a row is protected), or come with '
        'unit="person_id": the guarantee is then of the cluster too',
    ),
    other_words={
        **dict.fromkeys(
            ("hc0", "hc1", "hc2", "hc3", "robust", "white", "sandwich", "heteroskedastic",
             "heteroscedastic"), "hetero",
        ),
        **dict.fromkeys(("nonrobust", "classical", "standard", "homoskedastic", "model"), "iid"),
    },
)  # fmt: skip

register_method(
    Method(
        name="ssp",
        verb="dp_ols",
        proof="models/linear/theory.md",
        foretells=True,
        title="least squares from noisy moments",
        backend=moments.BACKEND,
        endings=(Ending(scored.BACKEND, scored.why_not, "moments only"),),
        needs=("ranges", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("weights", "design"),
        reference=(
            "Vu and Slavkovic 2009; Dwork, Talwar, Thakurta and Zhang 2014; two stages: "
            "dpmodels/models/linear/theory.md"
        ),
        options=(
            STAGES,
            one_of(
                "query",
                "first release: rows in a 'ball', or separate bounds on x and y ('bounded')",
                "ball",
                "bounded",
            ),
            _RIDGE,
            replace(PHI, default=0.5),
            _RADIUS,
            _ERRORS,
            _VCOV,
            _SCORING,
            _RANGES,
            BOUNDS_SHARE,
            GUESS,
            PUBLIC_ORDER,
            PERSON_WEIGHTS,
        ),
    )
)


_PUBLIC_OPTIONS = (
    STAGES,
    one_of(
        "whitening",
        "'joint' with the response, or x and y 'separate' as published",
        "joint",
        "separate",
    ),
    SHRINK,
    Option("combine", "combine with the public-only fit by precision", False, bool),
    _RIDGE,
    PHI,
    PUBLIC_RADIUS,
    _ERRORS,
    _VCOV,
    _SCORING,
    GUESS,
)

register_method(
    Method(
        name="pmt",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="least squares whitened by public moments",
        backend=pmt.PMT,
        endings=(Ending(pmt.PMT_SCORED, scored.why_not, "moments only"),),
        needs=("public data", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("weights", "public", "design"),
        reference=(
            f"after '{PMT_PAPER}'; joint whitening, radii and stages: "
            "dpmodels/models/linear/theory.md"
        ),
        options=(*_PUBLIC_OPTIONS, PERSON_WEIGHTS),
    )
)

_ADASSP = "Wang 2018, Revisiting differentially private linear regression"

register_method(
    Method(
        name="adassp",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="AdaSSP with exact Gaussian accounting",
        backend=compared.ADASSP,
        needs=("delta > 0", "ranges"),
        relations=("replace", "add-remove"),
        accepts=("weights",),
        inference="no",
        privacy_se="unavailable",
        reference=_ADASSP,
        options=(BOUNDS_SHARE,),
    )
)

_COMPARED = (
    Method(
        name="pmt_paper",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="PMT as published (Algorithm 3)",
        backend=compared.PAPER,
        needs=("delta > 0", "public data"),
        accepts=("weights", "public"),
        reference=PMT_PAPER,
        options=PUBLISHED,
    ),
    Method(
        name="jl",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="Gaussian sketch",
        backend=compared.JL,
        by_rows=True,
        needs=("delta > 0", "declared ranges"),
        accepts=("weights",),
        reference="Sheffet 2017, Differentially private ordinary least squares",
        options=(Option("rows", "rows of the sketch", 500, int, lower=0),),
    ),
    Method(
        name="dpgd",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="noisy gradient descent",
        backend=compared.DPGD,
        needs=("delta > 0", "ranges", "several passes"),
        relations=("replace", "add-remove"),
        accepts=("weights",),
        reference="after Cai, Wang and Zhang 2021, The cost of privacy",
        options=(
            Option("iterations", "full-batch steps", 30, int, lower=1),
            positive("step", "step size", 0.5),
            BOUNDS_SHARE,
            GUESS,
        ),
    ),
    Method(
        name="functional",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="functional mechanism",
        backend=compared.FUNCTIONAL,
        needs=("declared ranges",),
        accepts=("weights",),
        reference="Zhang, Zhang, Xiao, Yang and Winslett 2012, Functional mechanism",
    ),
    Method(
        name="outpert",
        verb="dp_ols",
        proof="models/linear/theory.md",
        title="output perturbation",
        backend=compared.OUTPERT,
        needs=("delta > 0", "ranges"),
        accepts=("weights",),
        reference="after Chaudhuri, Monteleoni and Sarwate 2011",
        options=(BOUNDS_SHARE,),
    ),
)
for _method in _COMPARED:
    register_method(
        replace(_method, inference="no", privacy_se="unavailable", comparison_only=True)
    )

register_method(
    Method(
        name="eptr",
        verb="dp_ols",
        proof="models/linear/eptr.md",
        foretells=True,
        title="ePTR least squares",
        backend=eptr.BACKEND,
        needs=("delta > 0", "several passes"),
        relations=("replace",),
        inference="yes (auto form)",
        accepts=("weights",),
        privacy_se="released",
        reference=(
            "Shen, Tong, Wang: Efficient Propose-Test-Release for Optimal Differentially "
            "Private Estimation"
        ),
        options=(
            automatic(
                "c0", "smallest eigenvalue per row to be tested for; 'auto' releases a lower bound"
            ),
            one_of(
                "variant",
                "'paper' runs the published constants (needs Rx, Rtheta, c0)",
                "default",
                "paper",
            ),
            Option("whiten", "precondition the design by a private second moment", None, bool),
            one_of(
                "clip",
                "bound rows by scaling x and y together ('scale', default) or x only ('project')",
                "scale",
                "project",
                default=None,
            ),
            positive("Rx", "bound on the row norm in the design's own units"),
            positive("Ry", "bound on |response|, with Rx"),
            positive("Rtheta", "public bound on the coefficient norm"),
            one_of(
                "on_fail",
                "'no-reply', or 'ridge' to answer always with a shrunk estimate",
                "no-reply",
                "ridge",
            ),
            one_of(
                "coin", "'logistic', or the 'sharp' integer coin (fixed c0)", "logistic", "sharp"
            ),
            share("test_share", "share of eps for the test (fixed c0)", 0.25),
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    Method(
        name="gptr",
        verb="dp_ols",
        proof="models/linear/posterior.md",
        title="Posterior sampling with tested bounds",
        backend=posterior.GPTR,
        needs=("delta > 0", "one pass"),
        relations=("replace", "add-remove"),
        inference="no (bound of the noise)",
        privacy_se="unavailable",
        reference="Redberg, Zhu, Wang (2023), Generalized PTR, corrected constants",
        options=(
            one_of(
                "estimator",
                "'posterior' sample, or 'score' perturbation (better for ill conditioned designs)",
                "posterior",
                "score",
            ),
            Option("draws", "number of draws; the budget is split over them", 1, int, lower=0),
            automatic(
                "lam",
                "ridge in working units; 'auto' chooses it from released numbers, free of charge",
            ),
            Option(
                "fractions", "shares of mu^2 of the two bounds; None: (0.05, 0.10)", None, object
            ),
            Option(
                "floor", "smallest eigenvalue over the noise of its bound", 10.0, float, lower=1.0
            ),
            one_of(
                "variant",
                "'paper' is refused: its constants are not private (theory note)",
                "default",
                "paper",
            ),
            WORKING_RADIUS,
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    Method(
        name="ops",
        verb="dp_ols",
        proof="models/linear/posterior.md",
        title="OPS-Balanced, exact calibration",
        backend=posterior.OPS,
        needs=("delta > 0", "one pass", "ranges"),
        inference="no (bound of the noise)",
        privacy_se="unavailable",
        reference="Wang (2018), Revisiting differentially private linear regression",
        options=(WORKING_RADIUS,),
        comparison_only=True,
    )
)

register_method(
    Method(
        name="adaops",
        verb="dp_ols",
        proof="models/linear/posterior.md",
        title="AdaOPS, exact calibration",
        backend=posterior.GPTR,
        needs=("delta > 0", "one pass"),
        relations=("replace", "add-remove"),
        inference="no (bound of the noise)",
        privacy_se="unavailable",
        reference="Wang (2018), Revisiting differentially private linear regression",
        options=(WORKING_RADIUS, BOUNDS_SHARE),
        comparison_only=True,
    )
)
