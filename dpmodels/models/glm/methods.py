"""Methods of generalised linear models, as data."""

from dpmodels.families import FAMILIES, LINKS
from dpmodels.models.options import (
    BOUNDS_SHARE,
    WORKING_RADIUS,
    one_of,
    positive,
    scoring_method,
)
from dpmodels.registry import Method, Option, register_method

_CAP = positive(
    "mean_cap",
    "poisson: public cap on counts and mean; None: the declared upper end of the response",
)

_FAMILY = one_of("family", "response family", "binomial", "poisson")

#: Not smaller: at the cap the answer jumps to zero, and whether a fit gets there is private.
_ITER = Option("max_iter", "public cap on Newton steps over rows that are kept", 500, int, lower=99)

_LAM = positive("lam", "public ridge in working units; None: by rule, from eps, delta, n")

_LINK = one_of("link", "link function; fixed by the family", "logit", "log", default=None)


register_method(
    scoring_method(
        "dp_glm",
        "dpmodels.models.glm.scored",
        "McCullagh and Nelder (1989)",
        Option("family", "response family", "binomial", str, choices=tuple(FAMILIES)),
        Option("link", "link function; None: the family's", None, str, choices=tuple(LINKS)),
        positive("alpha", "dispersion of the negative binomial; None: by moments"),
        Option(
            "fit_stats",
            "release deviance, null deviance, pseudo R-squared (events: AIC): a tenth of mu^2",
            False,
            bool,
        ),
    )
)

register_method(
    Method(
        name="objpert",
        verb="dp_glm",
        title="Objective perturbation",
        backend="dpmodels.models.glm.objpert",
        by_rows=True,
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        inference="yes",
        privacy_se="released",
        accepts=("public",),
        reference=(
            "Kifer, Smith, Thakurta (2012); Redberg, Koskela, Wang (2023); profile: theory note"
        ),
        options=(
            _FAMILY,
            _LINK,
            _LAM,
            Option(
                "rescale",
                "learn centres and scales of the columns first (a tenth of the budget); None: not "
                "where most columns are dummies and noise is loud",
                None,
                bool,
            ),
            WORKING_RADIUS,
            _CAP,
            _ITER,
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    Method(
        name="gptr",
        verb="dp_glm",
        title="Output noise with a tested curvature",
        backend="dpmodels.models.glm.tested",
        by_rows=True,
        needs=("delta > 0", "several passes", "ranges"),
        relations=("replace", "add-remove"),
        inference="privacy part only",
        privacy_se="released",
        reference="Redberg, Zhu, Wang (2023), Generalized PTR, corrected constants",
        options=(
            _FAMILY,
            _LINK,
            one_of(
                "shape",
                "noise: 'iso' (spherical) or 'hessian' (the paper's sample, for reproduction)",
                "iso",
                "hessian",
            ),
            _LAM,
            WORKING_RADIUS,
            _ITER,
        ),
    )
)
