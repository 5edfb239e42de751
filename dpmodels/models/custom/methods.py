"""Methods of a user's own estimator, as data."""

from dpmodels.models.options import one_of, positive, share
from dpmodels.registry import Method, Option, register_method

_COIN_SHARE = share("test_share", "share of eps for the test", 0.25)

_FUNCTIONS = (
    Option("estimator", "function of an (n, k) array", None),
    Option("safety", "function of an (n, k) array", None),
    Option("alpha", "bound on the change of the estimate", None),
    Option("size", "length of the estimate", 1, int, lower=0),
    Option("names", "names of its entries", None),
)

register_method(
    Method(
        name="coin",
        verb="dp_eptr",
        title="Efficient Propose-Test-Release",
        backend="dpmodels.models.custom.eptr",
        by_rows=True,
        needs=("delta > 0", "a proof of the user"),
        inference="privacy part only",
        privacy_se="public",
        reference="Shen, Tong, Wang: Efficient Propose-Test-Release, Algorithm 2",
        options=(
            *_FUNCTIONS,
            _COIN_SHARE,
            one_of("coin", "'integer', 'sharp' or 'logistic'", "integer", "sharp", "logistic"),
        ),
    )
)

_TEST_SHARE = share("test_share", "share of eps for the test", 0.5)

register_method(
    Method(
        name="ptr",
        verb="dp_eptr",
        title="Propose-Test-Release with a distance",
        backend="dpmodels.models.custom.eptr",
        by_rows=True,
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
        backend="dpmodels.models.custom.eptr",
        by_rows=True,
        needs=("delta > 0", "a proof of the user"),
        inference="privacy part only",
        privacy_se="public",
        reference="theory note of the ptr room, section 2",
        options=(*_FUNCTIONS, positive("sensitivity", "sensitivity of the statistic", 1.0)),
    )
)

_USER = (
    Option("mechanism", "the user's mechanism", None, object),
    Option("privacy_loss", "its data-dependent privacy loss, or a statistic", None, object),
    positive("sensitivity", "of the privacy loss", 1.0),
    Option("size", "length of the output", 1, int, lower=0),
    Option("names", "names of the outputs", None, object),
    share("test_share", "share of eps for the test", 0.25),
    one_of("proof", "relation of the user's proofs", "add-remove", "replace"),
)  # fmt: skip

for _name, _more in (
    ("propose", ()),
    ("choose", (Option("choose", "(bound, eps, delta) -> parameter", None, object),)),
):
    register_method(
        Method(
            name=_name,
            verb="dp_gptr",
            title="Generalized Propose-Test-Release"
            + (" (bound for every parameter)" if _more else ""),
            backend="dpmodels.models.custom.gptr",
        by_rows=True,
            needs=("delta > 0", "one pass", "ranges", "a proof"),
            relations=("replace", "add-remove"),
            inference="no",
            privacy_se="unavailable",
            reference="Redberg, Zhu, Wang (2023), Algorithm " + ("5" if _more else "2"),
            options=_USER + _more,
        )
    )
