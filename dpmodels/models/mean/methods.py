"""Methods of means, as data."""

from dpmodels.models.options import BOUNDS_SHARE, positive, share
from dpmodels.registry import Ending, Method, register_method

register_method(
    Method(
        name="clipped",
        verb="dp_mean",
        foretells=True,
        title="Mean of clipped values",
        backend="dpmodels.models.mean.clipped",
        endings=(
            Ending(
                "dpmodels.models.mean.weighted", "dpmodels.models.mean.weighted:why_not", "",
                "Weighted mean of clipped values",
            ),
        ),
        aside=True,
        accepts=("weights", "design"),
        people=("dpmodels.models.mean.clipped",),
        needs=("delta > 0", "one pass"),
        privacy_se="released",
        reference="Gaussian mechanism on sums and the count; ranges by stability histograms",
        options=(BOUNDS_SHARE,),
    )
)

_TEST_SHARE = share("test_share", "share of eps for the test", 0.5)

register_method(
    Method(
        name="ptr",
        verb="dp_mean",
        foretells=True,
        title="Propose-Test-Release mean",
        backend="dpmodels.models.mean.ptr",
        by_rows=True,
        needs=("delta > 0", "width"),
        inference="no (privacy part only)",
        privacy_se="public",
        reference="Dwork and Lei (2009), Differential privacy and robust statistics",
        options=(
            positive("width", "known half-width of the data around their centre"),
            share("beta", "probability of no reply on good data", 0.05),
            _TEST_SHARE,
        ),
        comparison_only=True,
    )
)
