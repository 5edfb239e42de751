"""Methods of kernel regression, as data."""

from dpmodels.models.options import BOUNDS_SHARE, automatic, one_of, positive
from dpmodels.registry import Method, Option, register_method

_AT = Option("at", "table of public query points; None: a grid (one or two variables)", None)

_H = positive("h", "bandwidth on the [-1, 1] scale; None: 1.06 * 0.58 * n^(-1/(d+4))")


register_method(
    Method(
        name="functional",
        verb="dp_npreg",
        title="Functional release",
        backend="dpmodels.models.kernel.regression",
        needs=("delta > 0", "one pass"),
        inference="privacy band",
        reference="Hall, Rinaldo, Wasserman (2013), Differential privacy for functions",
        options=(_H, _AT, BOUNDS_SHARE),
    )
)

register_method(
    Method(
        name="eptr",
        verb="dp_npreg",
        title="ePTR kernel regression",
        backend="dpmodels.models.kernel.regression",
        needs=("delta > 0", "one pass"),
        inference="privacy band",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 5",
        options=(
            _H,
            _AT,
            automatic("c0", "smallest kernel mass per row; 'auto' releases a lower bound"),
            one_of(
                "variant", "'paper' pays for each point by itself (needs c0)", "default", "paper"
            ),
            BOUNDS_SHARE,
        ),
    )
)

register_method(
    Method(
        name="wavelet",
        verb="dp_npreg",
        title="Haar wavelets with Gaussian noise",
        backend="dpmodels.models.kernel.wavelet",
        needs=("delta > 0", "one pass", "one variable"),
        inference="privacy band",
        reference="Cai, Chakraborty, Vuursteen (2024)",
        options=(
            Option("level_j", "2^J cells; None: by n and mu", None, int, lower=0, upper=16),
            BOUNDS_SHARE,
        ),
        comparison_only=True,
    )
)
