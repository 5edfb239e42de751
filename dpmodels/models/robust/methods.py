"""Methods of robust regression on data, as data (on a noised table: ``models/noised``)."""

from dpmodels.models.options import BOUNDS_SHARE, GUESS, PUBLIC_ORDER
from dpmodels.registry import Method, Option, register_method

register_method(
    Method(
        name="scoring",
        verb="dp_mest",
        title="Private Fisher scoring",
        backend="dpmodels.models.robust.scored",
        people=("dpmodels.models.robust.scored",),
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        reference="theory note scoring/theory.md; Huber (1964); Newey and Powell (1987)",
        options=(
            Option("loss", "name, or dp.IndexLoss(of_residual=True)", None, object),
            Option(
                "k", "corner of the Huber loss, in units of the scale; None: 1.345", None, float,
                lower=0.0,
            ),
            Option(
                "scale", "scale of the Huber loss, in units of the response; None: released",
                None, float, lower=0.0,
            ),
            Option("tau", "expectile, or quantile", 0.5, float, lower=0.0, upper=1.0),
            PUBLIC_ORDER,
            GUESS,
            BOUNDS_SHARE,
        ),
        accepts=("weights",),
        aside=True,
        foretells=True,
    )
)  # fmt: skip
