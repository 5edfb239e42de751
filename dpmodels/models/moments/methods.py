"""Methods of second moments, as data."""

from dpmodels.models.options import (
    BOUNDS_SHARE,
    GUESS,
    PHI,
    PMT_PAPER,
    PUBLIC_RADIUS,
    PUBLISHED,
    SHRINK,
    STAGES,
)
from dpmodels.registry import Method, register_method

register_method(
    Method(
        name="ssp",
        verb="dp_moments",
        title="second moments, whitened by a first release",
        backend="dpmodels.models.moments.whitened",
        people=("dpmodels.models.moments.whitened",),
        needs=("ranges", "two passes"),
        relations=("replace", "add-remove"),
        inference="privacy part only",
        privacy_se="public",
        reference="Vu and Slavkovic 2009; two stages: dpmodels/models/linear/theory.md",
        options=(BOUNDS_SHARE, STAGES, PHI, GUESS),
    )
)


register_method(
    Method(
        name="joint",
        verb="dp_moments",
        title="noisy second moments",
        backend="dpmodels.models.moments.joint",
        people=("dpmodels.models.moments.joint",),
        needs=("ranges",),
        relations=("replace", "add-remove"),
        inference="privacy part only",
        privacy_se="public",
        reference="Blum, Dwork, McSherry and Nissim 2005; dpmodels/models/linear/theory.md",
        options=(BOUNDS_SHARE, GUESS),
    )
)


register_method(
    Method(
        name="pmt",
        verb="dp_moments",
        title="second moments of rows whitened by public ones",
        backend="dpmodels.models.moments.public",
        people=("dpmodels.models.moments.public",),
        needs=("public data", "two passes"),
        relations=("replace", "add-remove"),
        accepts=("public",),
        inference="privacy part only",
        privacy_se="public",
        reference=(
            f"after '{PMT_PAPER}'; joint whitening, radii and stages: "
            "dpmodels/models/linear/theory.md"
        ),
        options=(STAGES, SHRINK, PHI, PUBLIC_RADIUS, GUESS),
    )
)


register_method(
    Method(
        name="pmt_paper",
        verb="dp_moments",
        title="PMT second moments as published (Algorithm 2)",
        backend="dpmodels.models.moments.paper",
        needs=("delta > 0", "public data"),
        accepts=("public",),
        inference="privacy part only",
        privacy_se="public",
        comparison_only=True,
        reference=PMT_PAPER,
        options=PUBLISHED,
    )
)
