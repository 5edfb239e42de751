"""Releases that are no query: each has a proof of its own, by name.

The prover (:mod:`dpmodels.exact.prove`) knows sums of clipped units and lemmas about them. What is
tested, sampled, perturbed or drawn otherwise stands here: one entry a proof, with the functions
that may hold rows and run for it, the draws they may make, the section that proves it, the audit
case and the mutants that the audit must catch. :meth:`dpmodels.exact.ask.Ask.raw` gives nothing to
anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpmodels.privacy.run import FLOAT_NOTE, RUNS_NOTE, SMOOTH_NOTE, TABLE_NOTE

#: Begins what a guarantee says of such a proof.
OF_ITS_OWN = "proof of its own"


@dataclass(frozen=True)
class OwnProof:
    """A proof that is not derived.

    Attributes
    ----------
    name : str
    where : tuple of str
        ``module:function`` under ``dpmodels``: alone in being given rows and run.
    draws : tuple of str
        Draws of :class:`dpmodels.privacy.run.Run` that it makes.
    statement : str
        Which curve, for which neighbours.
    theory : (file, section)
        Under ``dpmodels``.
    audit : str
        Key of the audit case, "verb.method" or as it is registered.
    replay : str
        "distance": the sensitivity handed over is compared on neighbours; "coin": probability and
        sd are; "inner: why" where neither is one.
    methods : tuple of str
        Methods of the registry that release by it.
    relations : tuple of str
    note : str
        Qualification that the guarantee carries.
    """

    name: str
    where: tuple[str, ...]
    draws: tuple[str, ...]
    statement: str
    theory: tuple[str, str]
    audit: str
    replay: str
    methods: tuple[str, ...] = ()
    relations: tuple[str, ...] = ("replace",)
    note: str = ""

    @property
    def said(self) -> str:
        """What a guarantee says of it."""
        return f"{OF_ITS_OWN}: {self.name} ({self.theory[0]}, {self.theory[1]})"


_ALL = (
    OwnProof(
        "ePTR, least squares",
        ("models.linear.eptr_release:_release_auto", "models.linear.eptr_release:_release_pair"),
        ("gaussian_real", "coin_gaussian"),
        "the projected solution moves by at most B(rho)/lambda while the released or tested lower "
        "bound of the least eigenvalue holds",
        ("models/linear/eptr.md", "3"), "dp_ols.eptr", "distance, coin", ("dp_ols.eptr",),
    ),
    OwnProof(
        "posterior draws",
        ("models.linear.gptr_release:release",),
        ("inner_normals",),
        "a normal draw about the ridge solution, precision by released bounds of the least "
        "eigenvalue and of the residuals; one-sided composition",
        ("models/linear/posterior.md", "2.1"), "dp_ols.gptr",
        "inner: the law of the draw is what is proved, no vector plus noise",
        ("dp_ols.gptr", "dp_ols.ops", "dp_ols.adaops"), ("replace", "add-remove"), FLOAT_NOTE,
    ),
    OwnProof(
        "output perturbation",
        ("models.linear.outpert:release",),
        ("gaussian_real",),
        "a strongly convex minimiser moves by at most 2 L R_x / lam, one row replaced",
        ("exact/theory.md", "1.4"), "dp_ols.outpert", "distance", ("dp_ols.outpert",),
    ),
    OwnProof(
        "gaussian sketch",
        ("models.linear.jl:release",),
        ("sketch_normals",),
        "rows of G [A; w I] are normal with covariance A'A + w^2 I: a Renyi curve in B^2/w^2",
        ("models/linear/theory.md", "5"), "dp_ols.jl",
        "inner: each row meets normals of its own", ("dp_ols.jl",), ("replace",), FLOAT_NOTE,
    ),
    OwnProof(
        "objective perturbation",
        ("models.glm.release:release",),
        ("inner_normals", "gaussian_real"),
        "the minimiser of a loss with a random linear term has a density whose ratio is bounded by "
        "the score and the curvature of one row",
        ("models/glm/theory.md", "4.1"), "dp_glm.objpert",
        "inner: the tilt is drawn before a row is read; the distance to the certified optimum is",
        ("dp_glm.objpert",), ("replace", "add-remove"), FLOAT_NOTE,
    ),
    OwnProof(
        "logistic posterior",
        ("models.glm.tested:release",),
        ("gaussian_real", "inner_normals"),
        "curvature at the optimum moves by a bounded factor (self-concordance), and the optimum by "
        "the score over the released curvature; one-sided composition",
        ("models/glm/theory.md", "3"), "dp_glm.gptr",
        "distance; inner: the normals of the Hessian's shape", ("dp_glm.gptr",), ("replace",),
        FLOAT_NOTE,
    ),
    OwnProof(
        "ePTR, class means",
        ("models.bayes.gaussian:_release_pair",),
        ("coin_gaussian",),
        "class means are stable while the smallest class is large; coin and normal noise",
        ("models/bayes/theory.md", "7"), "dp_bayes.eptr", "coin", ("dp_bayes.eptr",),
    ),
    OwnProof(
        "smooth sensitivity, class means",
        ("models.bayes.compare:_smooth_means",),
        ("scaled_laplace",),
        "Laplace noise at the beta-smooth sensitivity of a class mean",
        ("models/bayes/theory.md", "9"), "dp_bayes.dpnbss",
        "inner: the scale of the noise is private", ("dp_bayes.dpnbss",), ("replace",), SMOOTH_NOTE,
    ),
    OwnProof(
        "projector",
        ("models.components.pca:release",),
        ("gaussian_real",),
        "the projector on k components moves by at most sqrt 2 over the released gap (Davis-Kahan)",
        ("models/components/theory.md", "5.3"), "dp_pca.gptr", "distance", ("dp_pca.gptr",),
        ("replace", "add-remove"),
    ),
    OwnProof(
        "ePTR, kernel regression",
        ("models.kernel.regression:_release_eptr",),
        ("coin_gaussian",),
        "a kernel mean is stable while the least kernel mass is large; coin and normal noise",
        ("models/kernel/theory.md", "8"), "dp_npreg.eptr", "coin", ("dp_npreg.eptr",),
    ),
    OwnProof(
        "classic propose-test-release, mean",
        ("models.mean.ptr:release",),
        ("coin_gaussian",),
        "the clipped mean about the shortest interval is stable at a distance from bad tables",
        ("models/mean/theory.md", "6"), "dp_mean.ptr", "coin", ("dp_mean.ptr",),
    ),
    OwnProof(
        "ePTR of the user's own estimator",
        ("models.custom.eptr:release",),
        ("coin_gaussian", "gaussian_real"),
        "true if the user's two conditions are: safety moves by 1, and bounds the estimate's move",
        ("models/mean/theory.md", "6"), "dp_eptr.coin", "distance, coin",
        ("dp_eptr.coin", "dp_eptr.ptr", "dp_eptr.bound"),
    ),
    OwnProof(
        "generalized propose-test-release of the user's own mechanism",
        ("models.custom.gptr:release",),
        ("laplace_real", "inner_source"),
        "true if the user's bound of the privacy loss is: one-sided composition",
        ("privacy/one_sided.md", "1"), "dp_gptr.propose",
        "distance; inner: the mechanism is the user's", ("dp_gptr.propose", "dp_gptr.choose"),
        ("replace",), FLOAT_NOTE,
    ),
    OwnProof(
        "selection",
        ("models.custom.selection:_best",),
        ("inner_source",),
        "the best of a random number of private candidates",
        ("models/custom/theory.md", "7"), "dp_select", "inner: the candidates draw",
        (), ("replace", "add-remove"), RUNS_NOTE,
    ),
    OwnProof(
        "stable winner",
        ("models.votes.votes:majority",),
        (),
        "where the margin is above 2, which the released bound misses with probability delta at "
        "most, every neighbour has the same winner",
        ("models/votes/theory.md", "5.1"), "dp_vote", "inner: nothing is drawn",
    ),
    OwnProof(
        "PATE with a data-dependent bound",
        ("models.votes.votes:answer_queries",),
        ("inner_source",),
        "noisy argmax; the Renyi bound at the votes is released with smooth noise",
        ("models/votes/theory.md", "5.2"), "dp_pate", "inner: the scale of the noise is private",
        (), ("replace",), FLOAT_NOTE,
    ),
    OwnProof(
        "noised rows",
        ("models.noised.make:noised_rows",),
        ("noisy_table",),
        "every row of the release is one row of the table plus noise of its own",
        ("models/noised/theory.md", "2"), "dp_release", "distance",
        tuple(
            f"{verb}.{name}"
            for verb in ("dp_ols", "dp_glm", "dp_quantreg", "dp_mest")
            for name in ("drcl", "sdrcl", "sl", "naive")
        ),
        ("replace",), TABLE_NOTE,
    ),
)  # fmt: skip

OWN_PROOFS: dict[str, OwnProof] = {one.name: one for one in _ALL}


_OF_METHOD = {method: one for one in _ALL for method in one.methods}


def own_proof_of(verb: str, method: str) -> OwnProof | None:
    """Return the proof of a method of a verb; None: its releases are derived."""
    return _OF_METHOD.get(f"{verb}.{method}")


def own_proof(name: str) -> OwnProof:
    """Return the entry of a name."""
    return OWN_PROOFS[name]
