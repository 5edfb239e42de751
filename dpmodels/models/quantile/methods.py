"""Methods of quantile regression on data, as data (on a noised table: ``models/noised``)."""

from dpmodels.models.options import BOUNDS_SHARE, GUESS, PUBLIC_ORDER
from dpmodels.registry import Method, Option, register_method

register_method(
    Method(
        name="scoring",
        verb="dp_quantreg",
        title="Private Fisher scoring",
        backend="dpmodels.models.quantile.scored",
        people=("dpmodels.models.quantile.scored",),
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        reference="theory note scoring/theory.md; Koenker and Bassett (1978)",
        options=(
            Option("tau", "quantile, or a list of quantiles", 0.5, object),
            PUBLIC_ORDER,
            GUESS,
            BOUNDS_SHARE,
        ),
        accepts=("weights",),
        aside=True,
        foretells=True,
    )
)
