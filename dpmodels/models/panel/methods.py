"""Methods of panels, as data."""

from dpmodels.models.options import BOUNDS_SHARE, GUESS
from dpmodels.registry import Method, Option, register_method

_FIT = "dpmodels.models.panel.fit"
_RANDOM = (
    Option("re", "random intercepts of the unit in place of its effects: its column", None, str),
    Option("mundlak", "with re=: means of a person's own rows are predictors too", True, bool),
)

for _verb, _title, _source in (
    ("dp_feols", "effects of people by own rows, least squares", "Mundlak (1961)"),
    ("dp_fepois", "effects of people by own rows, Poisson", "Hausman, Hall and Griliches (1984)"),
):
    register_method(
        Method(
            name="scoring",
            verb=_verb,
            title=_title,
            backend=_FIT,
            people=(_FIT,),
            needs=("delta > 0", "several passes", "unit="),
            relations=("replace", "add-remove"),
            inference="yes",
            privacy_se="released",
            reference=f"{_source}; theory note panel/theory.md",
            options=(*(_RANDOM if _verb == "dp_feols" else ()), BOUNDS_SHARE, GUESS),
            foretells=True,
        )
    )
