"""Methods of this room, as data."""

from dpmodels.registry import Method, Option, register_method
from dpmodels.results.kinds import Kind, register_kind

register_method(
    Method(
        name="eptr",
        verb="dp_ols",
        title="ePTR least squares",
        backend="dpmodels.ptr.ols",
        needs=("delta > 0", "several passes"),
        relations=("replace",),
        inference="yes (auto form)",
        accepts=("weights",),
        privacy_se="released",
        reference=(
            "Shen, Tong, Wang: Efficient Propose-Test-Release for Optimal Differentially "
            "Private Estimation"
        ),
        options=(
            Option(
                "c0",
                "smallest eigenvalue per row to be tested for; 'auto' releases a lower bound",
                "auto",
                (float, str),
                choices=("auto",),
                lower=0.0,
            ),
            Option(
                "variant",
                "'paper' runs the published constants (needs Rx, Rtheta, c0)",
                "default",
                str,
                choices=("default", "paper"),
            ),
            Option("whiten", "precondition the design by a private second moment", None, bool),
            Option(
                "clip",
                "bound rows by scaling x and y together ('scale', default) or x only ('project')",
                None,
                str,
                choices=("scale", "project"),
            ),
            Option("Rx", "bound on the row norm in the design's own units", None, float, lower=0.0),
            Option("Ry", "bound on |response|, with Rx", None, float, lower=0.0),
            Option("Rtheta", "public bound on the coefficient norm", None, float, lower=0.0),
            Option(
                "on_fail",
                "'no-reply', or 'ridge' to answer always with a shrunk estimate",
                "no-reply",
                str,
                choices=("no-reply", "ridge"),
            ),
            Option(
                "coin",
                "'logistic', or the 'sharp' integer coin (fixed c0)",
                "logistic",
                str,
                choices=("logistic", "sharp"),
            ),
            Option(
                "test_share",
                "share of eps for the test (fixed c0)",
                0.25,
                float,
                lower=0.0,
                upper=1.0,
            ),
            Option(
                "bounds_share",
                "share of the budget that buys ranges",
                0.15,
                float,
                lower=0.0,
                upper=1.0,
            ),
        ),
    )
)

_SHARE = Option(
    "bounds_share", "share of the budget that buys ranges", 0.15, float, lower=0.0, upper=1.0
)
_TEST_SHARE = Option("test_share", "share of eps for the test", 0.5, float, lower=0.0, upper=1.0)

register_kind(Kind(verb="dp_mean", title="means", predict="", estimates="Mean", count="Means"))
register_method(
    Method(
        name="clipped",
        verb="dp_mean",
        title="Mean of clipped values",
        backend="dpmodels.ptr.mean",
        needs=("delta > 0", "one pass"),
        privacy_se="released",
        reference="Gaussian mechanism on sums and the count; ranges by stability histograms",
        options=(_SHARE,),
    )
)
register_method(
    Method(
        name="ptr",
        verb="dp_mean",
        title="Propose-Test-Release mean",
        backend="dpmodels.ptr.mean_ptr",
        needs=("delta > 0", "width"),
        inference="no (privacy part only)",
        privacy_se="public",
        reference="Dwork and Lei (2009), Differential privacy and robust statistics",
        options=(
            Option(
                "width", "known half-width of the data around their centre", None, float, lower=0.0
            ),
            Option(
                "beta", "probability of no reply on good data", 0.05, float, lower=0.0, upper=1.0
            ),
            _TEST_SHARE,
        ),
        comparison_only=True,
    )
)

_R = Option(
    "R",
    "bound on the norm of the features, in their own units; None: half-ranges",
    None,
    float,
    lower=0.0,
)
_VARIANCE = Option(
    "variance",
    "'shared' by the classes, by 'class', or 'identity'; None: by the form",
    None,
    str,
    choices=("shared", "class", "identity"),
)

register_kind(
    Kind(
        verb="dp_bayes",
        title="Gaussian Bayes classifier",
        predict="dpmodels.results.classify:predict_class",
        count="Parameters",
        absent=("training error", "class counts without noise"),
    )
)
register_method(
    Method(
        name="sums",
        verb="dp_bayes",
        title="Noisy class sums",
        backend="dpmodels.ptr.bayes",
        needs=("delta > 0", "declared classes", "one pass"),
        inference="privacy part only",
        reference="Gaussian mechanism on class sums and counts",
        options=(_R, _VARIANCE, _SHARE),
    )
)
register_method(
    Method(
        name="eptr",
        verb="dp_bayes",
        title="ePTR Bayes classifier",
        backend="dpmodels.ptr.bayes",
        needs=("delta > 0", "declared classes", "one pass"),
        inference="privacy part only",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 3",
        options=(
            _R,
            _VARIANCE,
            Option(
                "c0",
                "smallest share of a class; 'auto' releases lower bounds",
                "auto",
                (float, str),
                choices=("auto",),
                lower=0.0,
            ),
            Option(
                "variant",
                "'paper' runs the published constants (needs R, c0)",
                "default",
                str,
                choices=("default", "paper"),
            ),
            _SHARE,
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
            backend="dpmodels.ptr.bayes_compare",
            needs=("declared classes", "one pass", "delta > 0"),
            inference="no",
            privacy_se="unavailable",
            reference=_reference,
            options=(_SHARE,),
            comparison_only=True,
        )
    )

_H = Option(
    "h", "bandwidth on the [-1, 1] scale; None: 1.06 * 0.58 * n^(-1/(d+4))", None, float, lower=0.0
)
_AT = Option("at", "table of public query points; None: a grid (one or two variables)", None)

register_kind(
    Kind(
        verb="dp_npreg",
        title="kernel regression",
        predict="dpmodels.results.smooth:predict_curve",
        plot="dpmodels.results.smooth:plot_curve",
        count="Points",
        absent=("residuals", "cross-validated bandwidth"),
    )
)
register_method(
    Method(
        name="functional",
        verb="dp_npreg",
        title="Functional release",
        backend="dpmodels.ptr.npreg",
        needs=("delta > 0", "one pass"),
        inference="privacy band",
        reference="Hall, Rinaldo, Wasserman (2013), Differential privacy for functions",
        options=(_H, _AT, _SHARE),
    )
)
register_method(
    Method(
        name="eptr",
        verb="dp_npreg",
        title="ePTR kernel regression",
        backend="dpmodels.ptr.npreg",
        needs=("delta > 0", "one pass"),
        inference="privacy band",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 5",
        options=(
            _H,
            _AT,
            Option(
                "c0",
                "smallest kernel mass per row; 'auto' releases a lower bound",
                "auto",
                (float, str),
                choices=("auto",),
                lower=0.0,
            ),
            Option(
                "variant",
                "'paper' pays for each point by itself (needs c0)",
                "default",
                str,
                choices=("default", "paper"),
            ),
            _SHARE,
        ),
    )
)

_FUNCTIONS = (
    Option("estimator", "function of an (n, k) array", None),
    Option("safety", "function of an (n, k) array", None),
    Option("alpha", "bound on the change of the estimate", None),
    Option("size", "length of the estimate", 1, int, lower=0),
    Option("names", "names of its entries", None),
)
_COIN_SHARE = Option("test_share", "share of eps for the test", 0.25, float, lower=0.0, upper=1.0)

register_kind(Kind(verb="dp_eptr", title="estimate by Propose-Test-Release", predict=""))
register_method(
    Method(
        name="coin",
        verb="dp_eptr",
        title="Efficient Propose-Test-Release",
        backend="dpmodels.ptr.adapter",
        needs=("delta > 0", "a proof of the user"),
        inference="privacy part only",
        privacy_se="public",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 2",
        options=(
            *_FUNCTIONS,
            _COIN_SHARE,
            Option(
                "coin",
                "'integer', 'sharp' or 'logistic'",
                "integer",
                str,
                choices=("integer", "sharp", "logistic"),
            ),
        ),
    )
)
register_method(
    Method(
        name="ptr",
        verb="dp_eptr",
        title="Propose-Test-Release with a distance",
        backend="dpmodels.ptr.adapter",
        needs=("delta > 0", "a proof of the user"),
        inference="privacy part only",
        privacy_se="public",
        reference="Dwork and Lei (2009), Differential privacy and robust statistics",
        options=(*_FUNCTIONS, _TEST_SHARE),
    )
)
register_method(
    Method(
        name="bound",
        verb="dp_eptr",
        title="Release of a lower bound, then of the estimate",
        backend="dpmodels.ptr.adapter",
        needs=("delta > 0", "a proof of the user"),
        inference="privacy part only",
        privacy_se="public",
        reference="theory note of the ptr room, section 2",
        options=(
            *_FUNCTIONS,
            Option("sensitivity", "sensitivity of the statistic", 1.0, float, lower=0.0),
        ),
    )
)
register_method(
    Method(
        name="wavelet",
        verb="dp_npreg",
        title="Haar wavelets with Gaussian noise",
        backend="dpmodels.ptr.wavelet",
        needs=("delta > 0", "one pass", "one variable"),
        inference="privacy band",
        reference="Cai, Chakraborty, Vuursteen (2024)",
        options=(
            Option("level_j", "2^J cells; None: by n and mu", None, int, lower=0, upper=16),
            _SHARE,
        ),
        comparison_only=True,
    )
)
