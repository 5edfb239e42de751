"""Methods of the Gaussian Bayes classifier, as data."""

from dpmodels.models.options import BOUNDS_SHARE, automatic, one_of, positive
from dpmodels.registry import Method, register_method

_R = positive("R", "bound on the norm of the features, in their own units; None: half-ranges")


_VARIANCE = one_of(
    "variance",
    "'shared' by the classes, by 'class', or 'identity'; None: by the form",
    "shared",
    "class",
    "identity",
    default=None,
)

register_method(
    Method(
        name="sums",
        verb="dp_bayes",
        title="Noisy class sums",
        backend="dpmodels.models.bayes.gaussian",
        needs=("delta > 0", "declared classes", "one pass"),
        inference="privacy part only",
        reference="Gaussian mechanism on class sums and counts",
        options=(_R, _VARIANCE, BOUNDS_SHARE),
    )
)

register_method(
    Method(
        name="eptr",
        verb="dp_bayes",
        title="ePTR Bayes classifier",
        backend="dpmodels.models.bayes.gaussian",
        needs=("delta > 0", "declared classes", "one pass"),
        inference="privacy part only",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 3",
        options=(
            _R,
            _VARIANCE,
            automatic("c0", "smallest share of a class; 'auto' releases lower bounds"),
            one_of(
                "variant", "'paper' runs the published constants (needs R, c0)", "default", "paper"
            ),
            BOUNDS_SHARE,
        ),
    )
)

for _name, _title, _reference in (
    ("dpnb", "Naive Bayes with Laplace noise", "Vaidya, Shafiq, Basu, Hong (2013), corrected"),
    ("dpnbss", "Naive Bayes at smooth sensitivity", "Zafarani and Clifton (2020)"),
):
    register_method(
        Method(
            name=_name,
            verb="dp_bayes",
            title=_title,
            backend="dpmodels.models.bayes.compare",
            needs=("declared classes", "one pass", "delta > 0"),
            inference="no",
            privacy_se="unavailable",
            reference=_reference,
            options=(BOUNDS_SHARE,),
            comparison_only=True,
        )
    )
