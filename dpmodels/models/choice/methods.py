"""Methods of models of categories, as data."""

from dpmodels.models.options import BOUNDS_SHARE, GUESS, one_of
from dpmodels.registry import Method, register_method

_FIT = "dpmodels.models.choice.fit"

register_method(
    Method(
        name="scoring",
        verb="dp_polr",
        title="proportional odds by private Fisher scoring",
        backend=_FIT,
        people=(_FIT,),
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        inference="yes",
        privacy_se="released",
        reference="McCullagh (1980); theory note choice/theory.md",
        options=(
            one_of("link", "distribution of the latent response", "logistic", "probit", "cloglog"),
            BOUNDS_SHARE, GUESS,
        ),
        foretells=True,
    )
)
register_method(
    Method(
        name="scoring",
        verb="dp_multinom",
        title="multinomial logit by private Fisher scoring",
        backend=_FIT,
        people=(_FIT,),
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        inference="yes",
        privacy_se="released",
        reference="Theil (1969), McFadden (1974); theory note choice/theory.md",
        options=(BOUNDS_SHARE, GUESS),
        foretells=True,
    )
)
