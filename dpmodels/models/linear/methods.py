"""Methods of linear regression, as data."""

from dataclasses import replace

from dpmodels.models.linear import moments, pmt, scored
from dpmodels.registry import (
    BOUNDS_SHARE,
    GUESS,
    PERSON_WEIGHTS,
    PHI,
    PMT_PAPER,
    PUBLIC_ORDER,
    PUBLIC_RADIUS,
    SHRINK,
    STAGES,
    Ending,
    Method,
    Option,
    one_of,
    positive,
    register_method,
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
