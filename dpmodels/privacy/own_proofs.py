"""Releases that are no query: each has a proof of its own, by name.

The prover (:mod:`dpmodels.exact.prove`) knows sums of clipped units and lemmas about them. What is
tested, sampled, perturbed or drawn otherwise stands here: one entry a proof, with the functions
that may hold rows and run for it, the draws they may make, the section that proves it, the audit
case and the mutants that the audit must catch. :meth:`dpmodels.exact.ask.Ask.raw` gives nothing to
anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpmodels.privacy.run import FLOAT_NOTE, SMOOTH_NOTE

__all__ = ["OWN_PROOFS", "OwnProof", "own_proof"]


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


OWN_PROOFS: dict[str, OwnProof] = {}
_ = (FLOAT_NOTE, SMOOTH_NOTE)


def own_proof(name: str) -> OwnProof:
    """Return the entry of a name."""
    return OWN_PROOFS[name]
