"""Methods of survival curves and tests, as data."""

from dpmodels.models.options import BOUNDS_SHARE
from dpmodels.registry import Method, Option, register_method

_CURVE = "dpmodels.models.survival.survfit"
_TEST = "dpmodels.models.survival.survdiff"
_BREAKS = (
    Option("times", "public times at which survival is wanted: [6, 12, 24]", None, object),
    Option("breaks", "equal intervals of the declared range, or a list of times; None: 16", None,
           object),
    Option("max_episodes", "of Surv(start, stop, event): episodes of a unit that count whole; "
           "None: 1", None, int, lower=0, upper=1001),
)  # fmt: skip

register_method(
    Method(
        name="table",
        verb="dp_survfit",
        title="Kaplan-Meier of a table of follow-up",
        backend=_CURVE,
        people=(_CURVE,),
        needs=("delta > 0", "one pass"),
        inference="yes",
        privacy_se="public",
        reference="Kaplan and Meier (1958); Greenwood (1926); Gaussian mechanism on counts",
        options=(
            *_BREAKS,
            Option(
                "conf_type", "scale on which intervals are symmetric (R's default is 'log')",
                "log-log", str, choices=("log-log", "log", "plain"),
            ),
        ),
    )
)  # fmt: skip
register_method(
    Method(
        name="logrank",
        verb="dp_survdiff",
        title="Log-rank test of a table of follow-up",
        backend=_TEST,
        people=(_TEST,),
        needs=("delta > 0", "one pass"),
        inference="yes",
        privacy_se="public",
        reference="Mantel (1966); Peto and Peto (1972); Gaussian mechanism on counts",
        options=_BREAKS,
    )
)
_COX = "dpmodels.models.survival.cox"
register_method(
    Method(
        name="scoring",
        verb="dp_coxph",
        title="proportional hazards by private Fisher scoring",
        backend=_COX,
        people=(_COX,),
        needs=("delta > 0", "several passes"),
        inference="yes",
        privacy_se="released",
        reference="Cox (1972); Holford (1980); theory note survival/theory.md",
        options=(
            *_BREAKS, BOUNDS_SHARE,
            Option("concordance", "release Harrell's C too, with .05 of mu^2", False, bool),
        ),
        foretells=True,
    )
)
