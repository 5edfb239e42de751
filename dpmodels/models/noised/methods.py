"""Methods of this room, as data."""

from dpmodels.families import FAMILIES
from dpmodels.models.options import one_of, positive
from dpmodels.registry import Method, Option, register_method

_REFERENCE = "Long, Chen, Qiu: Versatile differentially private learning for general loss functions"

#: Options of the release that a straight fit makes.
RELEASE_OPTIONS = (
    one_of("unit", "what is protected: 'record' or 'attribute'", "record", "attribute"),
    one_of("noise", "kind of noise", "auto", "sl", "laplace", "gaussian"),
    Option("blocks", "columns that share one radius of SL noise: list of lists", None, object),
    Option("clear_prob", "probability that a record is published UNPERTURBED", 0.0, (float, int)),
    Option("allow_clear_records", "accept clear_prob above 1/(10 n)", False, bool),
    Option("public_columns", "variables published as they are: NOT PROTECTED", (), object),
    Option("keep_order", "state that the order of the rows is public", False, bool),
    Option("tight", "exact calibration of SL noise", True, bool),
)  # fmt: skip

#: For plan() only.
PLAN_OPTIONS = (
    Option("variances", "plan(): public guesses of the columns' variances", None, object),
    Option("guess", "plan(): public guesses of the coefficients", None, object),
    positive("sigma", "plan(): public guess of the error sd"),
)

VARIANT = one_of("variant", "'paper': the one-draw form (needs clear_prob > 0)", "default", "paper")
DRAW = Option("draw_seed", "seed of the second draw at analysis time", None, int)

_TITLES = {
    "drcl": "Corrected loss on a noised table (integrated DRCL)",
    "sdrcl": "Smoothed doubly random corrected loss on a noised table",
    "sl": "SL corrected loss on a noised table",
    "naive": "Uncorrected loss on a noised table",
}


def register_family(verb: str, options: tuple[Option, ...] = ()) -> None:
    """Register the methods of this room for a verb."""
    for name, title in _TITLES.items():
        own = (VARIANT, DRAW) if name == "drcl" else (DRAW,) if name in ("sdrcl", "sl") else ()
        register_method(
            Method(
                name=name,
                verb=verb,
                title=title,
                backend="dpmodels.models.noised.backend",
                by_rows=True,
                needs=("one pass",),
                relations=("replace",),
                inference="yes",
                privacy_se="released",
                reference=_REFERENCE,
                options=(*options, *own, *RELEASE_OPTIONS, *PLAN_OPTIONS),
                comparison_only=name == "naive",
                accepts=("release", "weights"),
                na="impute-midpoint",
            )
        )


_RADIUS = positive("radius", "slopes (times the column widths) stay inside", 20.0)
_THETA = Option(
    "theta",
    "ends of the coefficients, the intercept too: (lower, upper), or a dict of name -> ends; the "
    "fit then stays inside (None: slopes stay inside radius=)",
    None,
    object,
)
_H = Option("h", "smoothing of kinks, in units of the response; None: by rule", None, (float, int))
_TAU = Option("tau", "quantile", 0.5, (float, int))

register_family("dp_ols")
register_family(
    "dp_glm",
    (
        one_of("family", "response family", *(f.name for f in FAMILIES.values() if f.loss)),
        one_of("link", "fixed by the family", "logit", "log", default=None),
        _RADIUS,
        _THETA,
    ),
)  # fmt: skip
register_family("dp_quantreg", (_TAU, _H, _RADIUS, _THETA))
register_family(
    "dp_mest",
    (
        Option("loss", "name, dp.IndexLoss, or a function of (y, X, theta)", None, object),
        positive("k", "corner of the Huber loss, in units of the response"),
        _TAU,
        _H,
        _RADIUS,
        _THETA,
    ),
)
