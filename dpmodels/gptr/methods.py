"""Methods of this room, as data."""

from dpmodels.registry import Method, Option, register_method
from dpmodels.results.kinds import Kind, register_kind

_FAMILY = Option("family", "response family", "binomial", str, choices=("binomial", "poisson"))
_LINK = Option("link", "link function; fixed by the family", None, str, choices=("logit", "log"))
_SHARE = Option(
    "bounds_share", "share of the budget that buys ranges", 0.15, float, lower=0.0, upper=1.0
)
_CAP = Option(
    "mean_cap",
    "poisson: public cap on counts and mean; None: the declared upper end of the response",
    None,
    float,
    lower=0.0,
)
_LAM = Option(
    "lam", "public ridge in working units; None: by rule, from eps, delta, n", None, float,
    lower=0.0,
)  # fmt: skip
_ITER = Option("max_iter", "public cap on passes of the Newton iteration", 500, int, lower=0)

register_kind(
    Kind(
        verb="dp_glm",
        title="generalised linear model",
        link="logit",
        absent=("deviance", "residuals", "pseudo R-squared"),
    )
)
register_method(
    Method(
        name="objpert",
        verb="dp_glm",
        title="Objective perturbation",
        backend="dpmodels.gptr.glm_objpert",
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        inference="yes",
        privacy_se="released",
        reference=(
            "Kifer, Smith, Thakurta (2012); Redberg, Koskela, Wang (2023); profile: theory note"
        ),
        options=(
            _FAMILY,
            _LINK,
            _LAM,
            Option(
                "rescale",
                "learn centres and scales of the columns first (a tenth of the budget)",
                True,
                bool,
            ),
            Option("radius", "bound on the norm of a working row", None, float, lower=0.0),
            _CAP,
            _ITER,
            _SHARE,
        ),
    )
)
