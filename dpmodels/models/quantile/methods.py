"""Methods of quantile regression on data, as data (on a noised table: ``models/noised``)."""

from dpmodels.models.options import scoring_method
from dpmodels.registry import Option, register_method

register_method(
    scoring_method(
        "dp_quantreg",
        "dpmodels.models.quantile.scored",
        "Koenker and Bassett (1978)",
        Option("tau", "quantile, or a list of quantiles", 0.5, object),
    )
)
