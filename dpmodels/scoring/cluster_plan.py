"""Errors by cluster, by public numbers: radii, shares, and how stratum means are taken out.

``J = sum_k a_k a_k'``, a_k the sum of the clipped scores of cluster k, scaled into a ball of
radius B. Rules are public functions of (mu, n, p) and of the number of clusters, which is declared
or estimated (``method.md``, 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from dpmodels.core.clusters import Radii, statistic, totals_statistic
from dpmodels.errors import RequestError
from dpmodels.formula.design import Design
from dpmodels.planning import Plan
from dpmodels.privacy.mechanisms import Gaussian
from dpmodels.privacy.mechanisms import Step as LedgerStep
from dpmodels.proof.prove import noise_of
from dpmodels.ranges import Part
from dpmodels.records import Request
from dpmodels.scoring import rules
from dpmodels.survey import LEAST, Frame


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """The sample of a call."""

    frame: Frame  # Rule by which labels become clusters
    design: Design  # That of the call, with the labels of rows beside them

    @property
    def needed(self) -> bool:
        """Whether variances are not those of unrelated rows: clusters, or a finite population."""
        return self.frame.survey.psu is not None or self.frame.survey.fpc is not None

    @property
    def declared(self) -> dict[str, Any]:
        """Declarations of the columns of units and strata: public, as a schema is saved."""
        survey, schema = self.frame.survey, self.design.schema
        names = [n for n in (survey.psu, survey.strata) if n is not None and n in schema.variables]
        return dict(schema.restrict(names).to_dict())

    def read(self, design: Design) -> Design:
        """Return the design with labels that reads cells as ``design`` does: ranges put in."""
        base = self.design.without_bounds() if design.buy_all else self.design
        return base.with_bounds({name: (lo, hi) for name, lo, hi in design.bought})


@dataclass(frozen=True, eq=False)
class ClusterPlan:
    """Plan of the pass by cluster."""

    sample: SampleDesign  # With the frame that says how means of strata are taken out
    # mu, count, totals: mu of J for all chains together; mu of the number of clusters, 0 if it is
    # declared; mu of stratum totals for all chains together, 0 without them.
    mu: float
    count: float
    totals: float
    n: int  # Units, public or the guess
    relation: str
    chains: tuple[str, ...]  # Suffix of the step's name, per chain
    people: bool = False  # Units are people, who may have rows in several clusters
    # Allowed noise of J over that of a fit, if J is averaged afterwards.
    loose: float = 1.0
    part: float = rules.CLOSING_SHARE  # Share of J

    @classmethod
    def of(
        cls, sample: SampleDesign, mu: float, n: int, relation: str, chains: Sequence[str],
        size: int, *, people: bool = False, averaged: bool = False,
    ) -> ClusterPlan:  # fmt: skip
        """Plan the pass from the mu of the whole fit, for scores of dimension ``size``.

        ``averaged``: coordinates are looked at one by one, and shrunk to their average: J may be
        noisier, and fewer sums are pulled.
        """
        declared = sample.frame.survey.total is not None or sample.frame.survey.psu is None
        total = sample.frame.survey.total
        if total is not None and total < LEAST:
            raise RequestError(
                f"{total:g} clusters determine no error by cluster: at least {LEAST} are needed. "
                "Leave the clusters out (errors are then those of unrelated rows, and too small)"
            )
        if people and not declared:
            raise RequestError(
                "with unit= the number of clusters must be declared, psus=<number>: one person may "
                "be alone in any number of clusters, so this number is not estimated privately"
            )
        part = rules.CLUSTER_SHARE_AVERAGED if averaged else rules.CLOSING_SHARE
        plan = cls(
            sample, mu * math.sqrt(part),
            0.0 if declared else mu * math.sqrt(rules.SMALL_SHARE), 0.0,
            n, relation, tuple(chains), people,
            rules.CLUSTER_NOISE_AVERAGED if averaged else 1.0, part,
        )  # fmt: skip
        return plan._centred(mu * math.sqrt(rules.SMALL_SHARE), size)

    def _centred(self, mu: float, size: int) -> ClusterPlan:
        """Return the plan with means of strata taken out: in pairs, by totals, or not at all.

        By public numbers: pairs where labels are declared and their noise stays low, else totals
        where their noise is small in the smallest stratum of two units or more.
        """
        frame = self.frame
        if frame.pairs:
            if self.radii(size).ratio <= rules.PAIRS_NOISE * self.loose:
                return self
            sample = replace(self.sample, frame=replace(frame, labelled=False))
            return replace(self, sample=sample)._centred(mu, size)
        if not frame.countable:
            return self
        centred = replace(self.sample, frame=replace(frame, totals=True))
        plan = replace(self, sample=centred, totals=mu)
        return plan if plan.blurred(size) <= rules.TOTALS_NOISE else self

    @property
    def centring(self) -> str:
        """Description of the way in which means of strata are removed."""
        if self.frame.pairs:
            return "units compared in pairs within strata"
        if self.frame.totals:
            return "means of strata removed by released totals"
        left_in = "means of strata left in (errors are somewhat too large)"
        return left_in if self.frame.strata > 1 else "sums about zero"

    @property
    def share(self) -> float:
        """Part of mu^2."""
        count = rules.SMALL_SHARE if self.count else 0.0
        return self.part + (count + (rules.SMALL_SHARE if self.totals else 0.0))

    @property
    def steps(self) -> tuple[LedgerStep, ...]:
        """Entries of the ledger, with their shares of mu^2."""
        out = []
        if self.count:
            out.append(
                LedgerStep("clusters", Gaussian(self.count), share=rules.SMALL_SHARE)
            )
        k = len(self.chains)
        parts = [
            ("cluster scores", self.mu, self.part),
            ("stratum totals", self.totals, rules.SMALL_SHARE),
        ]  # fmt: skip
        for label in self.chains:
            for name, mu, share in parts:
                if mu:
                    step = Gaussian(mu / math.sqrt(k))
                    out.append(LedgerStep(f"{name}{label}", step, share=share / k))
        return tuple(out)

    def printed(self, p: int) -> dict[str, float]:
        """Return public numbers of the plan."""
        frame = self.frame
        if frame.survey.psu is not None and frame.survey.total is None:
            return {}
        radii = self.radii(p)
        out = {
            "bound of a cluster's sum": radii.bound,
            "noise of errors by cluster": radii.ratio * frame.correction,
        }
        return {**out, **({} if frame.df is None else {"degrees of freedom": frame.df})}

    def advice(self, p: int) -> tuple[str, ...]:
        """Warn where the noise will be too large for errors by cluster."""
        ratio = self.printed(p).get("noise of errors by cluster", 0.0)
        # over the size of J where rows of one cluster have nothing in common: its smallest
        alone = ratio * self.radii(p).guess if ratio else 0.0
        most, clauses = rules.CLUSTER_NOISE_HIGH * self.loose, []
        if ratio > most:
            clauses.append(f"about {ratio:.2g} of their size (above {most:.2g})")
        if alone > rules.CLUSTER_NOISE_MAX:
            clauses.append(
                f"about {alone:.2g} of it where rows of one cluster have little in common (above "
                f"{rules.CLUSTER_NOISE_MAX:g})"
            )
        if not clauses:
            return ()
        return (
            f"the noise of the errors by cluster will be {', and '.join(clauses)}: they may not be "
            "determined at this budget. "
            f"Fewer coefficients or a larger eps help: {self._enough(p)}. Without the clusters "
            "errors would be too small",
        )

    def _enough(self, p: int) -> str:
        """Return a sentence with the factor of eps that makes the noise small enough. Public."""
        for factor in (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0):
            then = replace(self, mu=self.mu * factor).radii(p)
            steady = then.noise * self.frame.correction
            if (
                then.ratio <= rules.CLUSTER_NOISE_HIGH * self.loose
                and steady <= rules.CLUSTER_NOISE_MAX
            ):
                return f"about {factor:g} times as much would do"
        return "no budget that is usual would do: there are too few clusters"

    @property
    def each(self) -> float:
        """Mu of one chain's J."""
        return self.mu / math.sqrt(len(self.chains))

    frame = property(attrgetter("sample.frame"))  # The clusters, and how they are formed

    def radii(self, p: int, clusters: float | None = None) -> Radii:
        """Return the radii for a number of clusters, or for the declared number if it is None."""
        survey, pairs = self.frame.survey, bool(self.frame.pairs)
        total = survey.total if clusters is None else clusters
        if survey.psu is None or total is None:  # rows are their own clusters
            total = float(self.n)
        alone = self.people and not pairs
        noise = rules.CLUSTER_NOISE_OF_PEOPLE if alone else rules.CLUSTER_NOISE * self.loose
        return radii(
            p, self.n, total, self.each, self.relation, icc=survey.icc, pairs=pairs,
            people=self.people, noise=noise,
        )  # fmt: skip

    def blurred(self, p: int) -> float:
        """Return a bound on the variance that noisy totals bring into J, over the square of J.

        To first order, in one direction, ``T_h^2/n_h`` has noise ``2 T_h e/n_h``, of variance
        ``4 sd^2 J_h/n_h`` at most, as ``T_h^2 <= n_h J_h``. The sum over strata is at most
        4 sd^2 J over the smallest n_h above 1. J (of all strata together) is guessed: n times
        ``guess``.
        """
        radii = self.radii(p)
        least = min((k for k in self.frame.units if k > 1), default=0)
        if not least:
            return math.inf
        statistic = totals_statistic(p, self.frame.strata, radii, people=self.people)
        mu = self.totals / math.sqrt(len(self.chains))
        sd = float(noise_of(statistic, Gaussian(mu), self.relation)[0]) * radii.bound
        return 4.0 * sd**2 / (self.n * least * radii.guess)


@dataclass(frozen=True, eq=False)
class Paid:
    """Steps added to those of a Gaussian call: ranges before them, sums by cluster after them."""

    request: Request
    ranges: Part
    clusters: ClusterPlan | None  # None: there are no clusters and no rates
    size: int  # Dimension of a score
    # whole, rest: shares of mu^2 that ranges leave, and that are left to the call's own steps.
    whole: float
    rest: float

    @classmethod
    def of(
        cls, request: Request, ranges: Part, n: int, size: int, *, labels: Sequence[str] = ("",),
        sample: SampleDesign | None = None, averaged: bool = False,
        by_cluster: bool | None = None,
    ) -> Paid:  # fmt: skip
        """Plan the added steps; ``ranges`` is the result of :func:`gaussian_part`.

        ``labels`` are of the models of the call (empty: the only one); the sample is that of the
        request, unless it is given; sums ``by_cluster`` are released where there are clusters, or
        rates, unless it says so.
        """
        sample = request.sample if sample is None else sample
        clusters, fit_share = None, 1.0 - ranges.share
        if sample is not None and (sample.needed if by_cluster is None else by_cluster):
            clusters = ClusterPlan.of(
                sample, ranges.mu * math.sqrt(fit_share), n, request.relation,
                [f" ({label})" if label else "" for label in labels], size,
                people=request.unit is not None, averaged=averaged,
            )  # fmt: skip
        passes_share = fit_share * (1.0 - (0.0 if clusters is None else clusters.share))
        return cls(request, ranges, clusters, size, fit_share, passes_share)

    def mu(self, share: float) -> float:
        """Return the mu of a share of mu^2."""
        return self.ranges.mu * math.sqrt(share)

    def plan(
        self, design: Design, n: int | None, steps: Sequence[LedgerStep], *, passes: int,
        shares: Mapping[str, float] | None = None, scales: Mapping[str, float] | None = None,
        advice: Sequence[str] = (), **facts: Any,
    ) -> Plan[Any]:  # fmt: skip
        """Return the plan of the call: its steps and passes between ranges and sums by cluster.

        ``shares``: as printed, where several steps are one share.
        """
        by_cluster, bought = self.clusters, self.ranges
        steps, scales, advice = [*bought.steps, *steps], {**(scales or {})}, (*advice,)
        if by_cluster is not None:
            steps += [s.within(self.whole) for s in by_cluster.steps]
            scales |= by_cluster.printed(self.size)
            advice += by_cluster.advice(self.size)
        if shares is not None:
            clusters = {} if by_cluster is None else {"clusters": by_cluster.share * self.whole}
            facts["shares"] = {**bought.printed, **shares, **clusters}
        return Plan.of(
            self.request, design, n, steps, scales=scales, advice=advice,
            purchase=bought.purchase,
            passes=passes + (bought.purchase is not None) + (by_cluster is not None), **facts,
        )  # fmt: skip


def clip_of(p: int, n: int, mu: float) -> float:
    """Return C from public numbers. It does not depend on the number of clusters."""
    return math.sqrt(p) * max(
        rules.MIN_CLUSTER_CLIP, rules.CLUSTER_CLIP_FACTOR * (mu * n) ** rules.CLIP_POWER
    )


def radii(
    p: int, n: int, clusters: float, mu: float, relation: str, *, icc: float, pairs: bool = False,
    people: bool = False, noise: float = rules.CLUSTER_NOISE,
) -> Radii:  # fmt: skip
    """Return the radii, by public numbers.

    ``C = sqrt p max(2.5, .12 (mu n)^.45)``. ``B = .25 tau mu n/(4 C)``, at which the noise of J is
    a quarter of J. B is at least twice the guessed root mean square length of a cluster's sum, at
    most twice the length of a sum of equal rows, and never below C. With ``pairs`` a sum is of two
    units. If more ``noise`` is allowed B is larger, up to twice its lower end.
    """
    m = max(n / max(clusters, 1.0), 1.0)
    tau = 1.0 + icc * (m - 1.0)
    C = clip_of(p, n, mu)
    low, high = 2.0 * math.sqrt(p * m * tau), 2.0 * m * math.sqrt(p)
    room = tau * mu * n / (4.0 * C)
    B = max(low, min(rules.CLUSTER_NOISE * room, high), min(noise * room, high, 2.0 * low), C)
    B *= math.sqrt(2.0) if pairs else 1.0
    B = max(B, C)
    noiseless = Radii(C, B, 0.0, tau)
    sd = float(noise_of(statistic(p, noiseless, people=people), Gaussian(mu), relation)[0]) * B * B
    return replace(noiseless, noise=sd / n)
