"""Proofs that are not derived: the claim of each, its section, and its audit.

Who may hold rows for a proof, and what may be drawn, is in :mod:`dpmodels.privacy.run`. Here is its
claim, the section that proves it, the audit case and the methods that release by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpmodels import messages
from dpmodels.notes import Note
from dpmodels.privacy.run import FLOAT_NOTE, RUNS_NOTE, SMOOTH_NOTE, TABLE_NOTE


@dataclass(frozen=True)
class Proved:
    """Claim of a proof that is not derived."""

    name: str
    statement: str  # Privacy curve, and its neighbours
    theory: tuple[str, str]  # (file, section): under ``dpmodels``
    audit: str  # Key of the audit case, "verb.method" or as it is registered
    # "distance": the sensitivity handed over is compared on neighbours; "coin": probability and sd
    # are; "inner: why" where neither is one.
    replay: str
    methods: tuple[str, ...] = ()  # Methods of the registry that release by it
    relations: tuple[str, ...] = ("replace",)
    qualification: Note | None = None  # Qualification that the guarantee must have

    @property
    def note(self) -> Note:
        """Note of a guarantee that names the proof."""
        file, section = self.theory
        return messages.PROOF(name=self.name, file=file, section=section)


_ALL = (
    Proved(
        "ePTR, least squares",
        "the projected solution moves by at most B(rho)/lambda while the released or tested lower "
        "bound of the least eigenvalue holds",
        ("models/linear/eptr.md", "3"), "dp_ols.eptr", "distance, coin", ("dp_ols.eptr",),
    ),
    Proved(
        "posterior draws",
        "a normal draw about the ridge solution, precision by released bounds of the least "
        "eigenvalue and of the residuals; one-sided composition",
        ("models/linear/posterior.md", "2.1"), "dp_ols.gptr",
        "inner: the law of the draw is what is proved, no vector plus noise",
        ("dp_ols.gptr", "dp_ols.ops", "dp_ols.adaops"), ("replace", "add-remove"), FLOAT_NOTE,
    ),
    Proved(
        "output perturbation",
        "a strongly convex minimiser moves by at most 2 L R_x / lam, one row replaced",
        ("proof/theory.md", "1.4"), "dp_ols.outpert", "distance", ("dp_ols.outpert",),
    ),
    Proved(
        "gaussian sketch",
        "rows of G [A; w I] are normal with covariance A'A + w^2 I: a Renyi curve in B^2/w^2",
        ("models/linear/theory.md", "5"), "dp_ols.jl",
        "inner: each row meets normals of its own", ("dp_ols.jl",), ("replace",), FLOAT_NOTE,
    ),
    Proved(
        "objective perturbation",
        "the minimiser of a loss with a random linear term has a density whose ratio is bounded by "
        "the score and the curvature of one row",
        ("models/glm.md", "4.1"), "dp_glm.objpert",
        "inner: the tilt is drawn before a row is read; the distance to the certified optimum is",
        ("dp_glm.objpert",), ("replace", "add-remove"), FLOAT_NOTE,
    ),
    Proved(
        "logistic posterior",
        "curvature at the optimum moves by a bounded factor (self-concordance), and the optimum by "
        "the score over the released curvature; one-sided composition",
        ("models/glm.md", "3"), "dp_glm.gptr",
        "distance; inner: the normals of the Hessian's shape", ("dp_glm.gptr",), ("replace",),
        FLOAT_NOTE,
    ),
    Proved(
        "ePTR, class means",
        "class means are stable while the smallest class is large; coin and normal noise",
        ("models/bayes.md", "7"), "dp_bayes.eptr", "coin", ("dp_bayes.eptr",),
    ),
    Proved(
        "smooth sensitivity, class means",
        "Laplace noise at the beta-smooth sensitivity of a class mean",
        ("models/bayes.md", "9"), "dp_bayes.dpnbss",
        "inner: the scale of the noise is private", ("dp_bayes.dpnbss",), ("replace",), SMOOTH_NOTE,
    ),
    Proved(
        "projector",
        "the projector on k components moves by at most sqrt 2 over the released gap (Davis-Kahan)",
        ("models/components.md", "5.3"), "dp_pca.gptr", "distance", ("dp_pca.gptr",),
        ("replace", "add-remove"),
    ),
    Proved(
        "ePTR, kernel regression",
        "a kernel mean is stable where its released or tested mass is large; coin and normal noise",
        ("models/kernel.md", "8"), "dp_npreg.eptr", "coin", ("dp_npreg.eptr",),
    ),
    Proved(
        "classic propose-test-release, mean",
        "the clipped mean about the shortest interval is stable at a distance from bad tables",
        ("models/mean.md", "6"), "dp_mean.ptr", "coin", ("dp_mean.ptr",),
    ),
    Proved(
        "ePTR for a user-supplied estimator",
        "true if the user's two conditions are: safety moves by 1, and bounds the estimate's move",
        ("models/mean.md", "6"), "dp_eptr.coin", "distance, coin",
        ("dp_eptr.coin", "dp_eptr.ptr", "dp_eptr.bound"),
    ),
    Proved(
        "generalized propose-test-release for a user-supplied mechanism",
        "true if the user's bound of the privacy loss is: one-sided composition",
        ("privacy/one_sided.md", "1"), "dp_gptr.propose",
        "distance; inner: the mechanism is the user's", ("dp_gptr.propose", "dp_gptr.choose"),
        ("replace",), FLOAT_NOTE,
    ),
    Proved(
        "selection",
        "the best of a random number of private candidates",
        ("models/custom.md", "7"), "dp_select", "inner: the candidates draw",
        (), ("replace", "add-remove"), RUNS_NOTE,
    ),
    Proved(
        "stable winner",
        "where the margin is above 2, which the released bound misses with probability delta at "
        "most, every neighbour has the same winner",
        ("models/votes.md", "5.1"), "dp_vote", "inner: nothing is drawn",
    ),
    Proved(
        "PATE with a data-dependent bound",
        "noisy argmax; the Renyi bound at the votes is released with smooth noise",
        ("models/votes.md", "5.2"), "dp_pate", "inner: the scale of the noise is private",
        (), ("replace",), FLOAT_NOTE,
    ),
    Proved(
        "noised rows",
        "every row of the release is one row of the table plus separate noise",
        ("models/noised/theory.md", "2"), "dp_release", "distance",
        tuple(
            f"{verb}.{name}"
            for verb in ("dp_ols", "dp_glm", "dp_quantreg", "dp_mest")
            for name in ("drcl", "sdrcl", "sl", "naive")
        ),
        ("replace",), TABLE_NOTE,
    ),
)  # fmt: skip

PROVED: dict[str, Proved] = {proof.name: proof for proof in _ALL}
#: The same by method, "verb.method"; a method whose releases are derived has none.
PROOF_OF_METHOD = {method: proof for proof in _ALL for method in proof.methods}
