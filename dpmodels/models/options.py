"""Options that several rooms share, as data."""

from dpmodels.ranges import RANGES_SHARE
from dpmodels.registry import Option

STAGES = Option(
    "stages",
    "1, 2 or 'auto' (by a public rule)",
    "auto",
    (int, str),
    choices=("auto",),
    lower=0,
    upper=3,
)

SHRINK = Option("shrink", "shrink the public moments to their diagonal; None: by rule", None, bool)

PHI = Option(
    "phi", "tolerated ratio of privacy to sampling variance (radius rule)", 0.1, float, lower=0.0
)

PUBLIC_RADIUS = Option(
    "radius",
    "radius of the rows: a number, 'loo', 'paper'; None: by rule",
    None,
    (float, str),
    choices=("loo", "paper"),
    lower=0.0,
)

GUESS = Option("n_guess", "public guess of the row count (add-remove)", None, int, lower=0)

BOUNDS_SHARE = Option(
    "bounds_share",
    "share of the budget that buys ranges",
    RANGES_SHARE,
    float,
    lower=0.0,
    upper=1.0,
)

PUBLISHED = (
    Option("eta", "failure probability of the truncation radius", 0.05, float, lower=0.0),
    Option("rho", "total zCDP budget; eps must cover it", None, float, lower=0.0),
)

PMT_PAPER = "Enhancing Differentially Private Linear Regression via Public Second-Moment"

#: Of working rows: designs in half-ranges, the intercept 1.
WORKING_RADIUS = Option("radius", "bound on the norm of a working row", None, float, lower=0.0)
