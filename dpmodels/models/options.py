"""Options that several rooms share, as data."""

from dpmodels.ranges import RANGES_SHARE
from dpmodels.registry import Method, Option


def one_of(name: str, doc: str, *words: str, default: str | None = "") -> Option:
    """Return an option that takes one of some words: by default the first."""
    return Option(name, doc, words[0] if default == "" else default, str, choices=words)


def share(name: str, doc: str, default: float) -> Option:
    """Return an option that takes a number between 0 and 1."""
    return Option(name, doc, default, float, lower=0.0, upper=1.0)


def positive(name: str, doc: str, default: float | None = None) -> Option:
    """Return an option that takes a positive number, or None where that is the default."""
    return Option(name, doc, default, float, lower=0.0)


def automatic(name: str, doc: str) -> Option:
    """Return an option that takes a positive number, or 'auto'."""
    return Option(name, doc, "auto", (float, str), choices=("auto",), lower=0.0)


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

PHI = positive("phi", "tolerated ratio of privacy to sampling variance (radius rule)", 0.1)

PUBLIC_RADIUS = Option(
    "radius",
    "radius of the rows: a number, 'loo', 'paper'; None: by rule",
    None,
    (float, str),
    choices=("loo", "paper"),
    lower=0.0,
)

GUESS = Option("n_guess", "public guess of the row count (add-remove)", None, int, lower=0)

BOUNDS_SHARE = share("bounds_share", "share of the budget that buys ranges", RANGES_SHARE)

PERSON_WEIGHTS = Option(
    "person_weights",
    "'equal': with unit= each person counts once, each of T rows as 1/T; None: rows count alike",
    None,
    str,
    choices=("equal",),
)

PUBLIC_ORDER = Option(
    "public_order",
    "say that the order of the rows tells nothing of their cells (it is not sorted by one, say): "
    "the first of two stages of a large table may then read a part of the rows",
    False,
    bool,
)
PUBLISHED = (
    positive("eta", "failure probability of the truncation radius", 0.05),
    positive("rho", "total zCDP budget; eps must cover it"),
)

PMT_PAPER = "Enhancing Differentially Private Linear Regression via Public Second-Moment"

#: Of working rows: designs in half-ranges, the intercept 1.
WORKING_RADIUS = positive("radius", "bound on the norm of a working row")


def scoring_method(verb: str, backend: str, reference: str, *options: Option) -> Method:
    """Return the entry of a verb's private Fisher scoring.

    Parameters
    ----------
    options : Option
        Of the verb, before those of every scoring fit.
    """
    return Method(
        name="scoring",
        verb=verb,
        title="Private Fisher scoring",
        backend=backend,
        people=(backend,),
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        reference=f"theory note scoring/theory.md; {reference}",
        options=(*options, PERSON_WEIGHTS, PUBLIC_ORDER, GUESS, BOUNDS_SHARE),
        accepts=("weights", "design"),
        aside=True,
        foretells=True,
    )
