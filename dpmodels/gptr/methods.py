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
_RADIUS = Option("radius", "bound on the norm of a working row", None, float, lower=0.0)
#: Not smaller: at the cap the answer jumps to zero, and whether a fit gets there is private.
_ITER = Option("max_iter", "public cap on Newton steps over rows that are kept", 500, int, lower=99)

register_kind(
    Kind(
        verb="dp_glm",
        title="generalised linear model",
        link="logit",
        says=(("Family", "family"),),
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
                "learn centres and scales of the columns first (a tenth of the budget); False may "
                "do better with a hundred dummies at small eps",
                True,
                bool,
            ),
            _RADIUS,
            _CAP,
            _ITER,
            _SHARE,
        ),
    )
)
register_method(
    Method(
        name="gptr",
        verb="dp_ols",
        title="Posterior sampling with tested bounds",
        backend="dpmodels.gptr.ols",
        needs=("delta > 0", "one pass"),
        relations=("replace", "add-remove"),
        inference="no (bound of the noise)",
        privacy_se="unavailable",
        reference="Redberg, Zhu, Wang (2023), Generalized PTR, corrected constants",
        options=(
            Option(
                "estimator",
                "'posterior' sample, or 'score' perturbation (better for ill conditioned designs)",
                "posterior",
                str,
                choices=("posterior", "score"),
            ),
            Option("draws", "number of draws; the budget is split over them", 1, int, lower=0),
            Option(
                "lam",
                "ridge in working units; 'auto' chooses it from released numbers, free of charge",
                "auto",
                (float, str),
                choices=("auto",),
                lower=0.0,
            ),
            Option(
                "fractions", "shares of mu^2 of the two bounds; None: (0.05, 0.10)", None, object
            ),
            Option(
                "floor", "smallest eigenvalue over the noise of its bound", 10.0, float, lower=1.0
            ),
            Option(
                "variant",
                "'paper' is refused: its constants are not private (theory note)",
                "default",
                str,
                choices=("default", "paper"),
            ),
            _RADIUS,
            _SHARE,
        ),
    )
)
register_method(
    Method(
        name="ops",
        verb="dp_ols",
        title="OPS-Balanced, exact calibration",
        backend="dpmodels.gptr.ols_ops",
        needs=("delta > 0", "one pass", "ranges"),
        inference="no (bound of the noise)",
        privacy_se="unavailable",
        reference="Wang (2018), Revisiting differentially private linear regression",
        options=(_RADIUS,),
        comparison_only=True,
    )
)
register_method(
    Method(
        name="adaops",
        verb="dp_ols",
        title="AdaOPS, exact calibration",
        backend="dpmodels.gptr.ols",
        needs=("delta > 0", "one pass"),
        relations=("replace", "add-remove"),
        inference="no (bound of the noise)",
        privacy_se="unavailable",
        reference="Wang (2018), Revisiting differentially private linear regression",
        options=(_RADIUS, _SHARE),
        comparison_only=True,
    )
)
register_method(
    Method(
        name="gptr",
        verb="dp_glm",
        title="Output noise with a tested curvature",
        backend="dpmodels.gptr.glm_tested",
        needs=("delta > 0", "several passes", "ranges"),
        relations=("replace", "add-remove"),
        inference="privacy part only",
        privacy_se="released",
        reference="Redberg, Zhu, Wang (2023), Generalized PTR, corrected constants",
        options=(
            _FAMILY,
            _LINK,
            Option(
                "shape",
                "noise: 'iso' (spherical) or 'hessian' (the paper's sample, for reproduction)",
                "iso",
                str,
                choices=("iso", "hessian"),
            ),
            _LAM,
            _RADIUS,
            _ITER,
        ),
    )
)

register_kind(
    Kind(verb="dp_pca", title="principal components", predict="", estimates="Loading",
         count="Loadings")
)  # fmt: skip
register_method(
    Method(
        name="gptr",
        verb="dp_pca",
        title="Projector with a tested eigengap",
        backend="dpmodels.gptr.pca",
        needs=("delta > 0", "two passes", "ranges"),
        relations=("replace", "add-remove"),
        inference="no",
        privacy_se="unavailable",
        reference="Redberg, Zhu, Wang (2023), Appendix C.4, with an improved sensitivity",
        options=(
            Option("k", "number of components", 1, int, lower=0),
            Option("scale", "standardise the columns first", True, bool),
            _RADIUS,
        ),
    )
)
register_kind(Kind(verb="dp_gptr", title="release of a user's mechanism", predict=""))
_USER = (
    Option("mechanism", "the user's mechanism", None, object),
    Option("privacy_loss", "its data-dependent privacy loss, or a statistic", None, object),
    Option("sensitivity", "of the privacy loss", 1.0, float, lower=0.0),
    Option("size", "length of the output", 1, int, lower=0),
    Option("names", "names of the outputs", None, object),
    Option("test_share", "share of eps for the test", 0.25, float, lower=0.0, upper=1.0),
    Option(
        "proof", "relation of the user's proofs", "add-remove", str,
        choices=("add-remove", "replace"),
    ),
)  # fmt: skip
for _name, _more in (
    ("propose", ()),
    ("choose", (Option("choose", "(bound, eps, delta) -> parameter", None, object),)),
):
    register_method(
        Method(
            name=_name,
            verb="dp_gptr",
            title="Generalized Propose-Test-Release"
            + (" (bound for every parameter)" if _more else ""),
            backend="dpmodels.gptr.adapter",
            needs=("delta > 0", "one pass", "ranges", "a proof"),
            relations=("replace", "add-remove"),
            inference="no",
            privacy_se="unavailable",
            reference="Redberg, Zhu, Wang (2023), Algorithm " + ("5" if _more else "2"),
            options=_USER + _more,
        )
    )
