"""Methods of principal components, as data."""

from dpmodels.models.options import WORKING_RADIUS
from dpmodels.registry import Method, Option, register_method

register_method(
    Method(
        name="gptr",
        verb="dp_pca",
        title="Projector with a tested eigengap",
        backend="dpmodels.models.components.pca",
        needs=("delta > 0", "two passes", "ranges"),
        relations=("replace", "add-remove"),
        inference="no",
        privacy_se="unavailable",
        reference="Redberg, Zhu, Wang (2023), Appendix C.4, with an improved sensitivity",
        options=(
            Option("k", "number of components", 1, int, lower=0),
            Option("scale", "standardise the columns first", True, bool),
            WORKING_RADIUS,
        ),
    )
)
