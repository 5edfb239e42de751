"""Methods of robust regression on data, as data (on a noised table: ``models/noised``)."""

from dpmodels.models.options import positive, scoring_method
from dpmodels.registry import Option, register_method

register_method(
    scoring_method(
        "dp_mest",
        "dpmodels.models.robust.scored",
        "Huber (1964); Newey and Powell (1987)",
        Option("loss", "name, or dp.IndexLoss(of_residual=True)", None, object),
        positive("k", "corner of the Huber loss, in units of the scale; None: 1.345"),
        positive("scale", "scale of the Huber loss, in units of the response; None: released"),
        Option("tau", "expectile, or quantile", 0.5, float, lower=0.0, upper=1.0),
    )
)
