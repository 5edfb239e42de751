"""Plan the passes of private Fisher scoring from public numbers: shares, radii, noise, samples.

Every number is in :mod:`dpmodels.scoring.rules`; the equations are in ``method.md``, 3 and 8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpmodels.arrays import Array
from dpmodels.formula.design import Design
from dpmodels.places import ALL_ROWS, WINDOW, Windows
from dpmodels.proof.prove import joint_sensitivity, sensitivity
from dpmodels.proof.sets import Ball, OneHot
from dpmodels.proof.statistics import Gram, Sum
from dpmodels.scoring import rules
from dpmodels.scoring.models import Model, Traits
from dpmodels.scoring.rules import ClipPolicy, PassShares, UnitShares
from dpmodels.sums.ask import Read

#: Kinds of columns that vary wherever one looks; the others may be constant over parts of a table.
_SPREAD = ("intercept", "numeric", "product")


def columns_noise(mu: float, n: int, p: int) -> float:
    """Return ``p^1.5/(mu n)``, which the spectral noise of an information grows with. Public."""
    return p**1.5 / (mu * n) if mu > 0.0 and n > 0 else float("inf")


def policy_of(p: int, *, averages: bool, of_mean: bool) -> ClipPolicy:
    """Return the clipping policy of a model, by public numbers.

    ``averages``: the information does not depend on the fit, as in least squares; ``of_mean``: a
    model of a mean (a family with a link).
    """
    if averages:
        return rules.WIDE_LEAST_SQUARES if p >= rules.COLUMNS else rules.LEAST_SQUARES
    return rules.MANY if of_mean or p >= rules.COLUMNS else rules.TAME


def usable_count(
    total: float, sd: float, n: float, relation: str, default: float | None = None
) -> float:
    """Return the released number of usable units.

    It is ``default`` (n, or its guess, unless given) if noise hides the count. It is n, if n is
    public, if noise hides that some units are not usable.
    """
    if total <= rules.CLEAR_OF_NOISE * sd:
        return n if default is None else default
    return n if relation == "replace" and total > n - rules.CLEAR_OF_NOISE * sd else total


def count_of(
    counts: Array, sd: float, n: float, relation: str, default: float | None = None
) -> float:
    """Return :func:`usable_count` of a noisy histogram of all units; ``sd``: noise of a bin."""
    return usable_count(float(counts.sum()), sd * math.sqrt(len(counts)), n, relation, default)


@dataclass(frozen=True)
class Noise:
    """Noise sds of the sums of one pass (matrices in svec coordinates), each in its unit.

    0: not released.
    """

    information: float
    score: float
    meat: float = 0.0
    scale: float = 0.0
    count: float = 0.0


@dataclass(frozen=True)
class PassPlan:
    """Plan of one scoring pass (reading, release and step), from public numbers."""

    p: int  # Dimension of u
    last: bool
    # mu_joint, mu_scale, mu_histogram: mu of the joint release of matrices and scores, of the
    # scale, and of the histogram (0 if it is not released).
    mu_joint: float
    mu_scale: float
    mu_histogram: float
    # information, clip, meat: radii R_H of v, C of scores, R_J of scores in the meat (0: none).
    information: float
    clip: float
    meat: float
    noise: Noise
    relation: str
    # rows, tail_rows: public numbers of rows that are summed (expected under coins), for all sums,
    # and for the meat.
    rows: float
    tail_rows: float
    weighted: bool = False  # Rows have weights omega: scores are rounded on a separate lattice
    # Whether no score in the declared ranges is longer than C, so that none is clipped.
    whole: bool = False
    people: bool = False  # The unit is a person: sums are of people, and ``rows`` counts them
    policy: ClipPolicy = rules.TAME  # Clipping and weighting of rows
    # Whether rows are weighed before their response is seen, so that no score is longer than C.
    uncut: bool = False
    # Whether most long scores have one length, that of rare events, and C is not below it.
    rare: bool = False
    strength: float = 1.0  # mu n, mu of all passes, n of the rows that this one reads
    scale_cut: float = 0.0  # Largest squared score in the sum that estimates the scale
    # Mean squared noise of a matrix over the value from the sd of its spectral norm.
    energy: float = 1.0

    @property
    def two_clips(self) -> bool:
        """Whether scores are released cut at C and at 2 C (``scoring/theory.md``, 2.8)."""
        passes = self.policy.two_clips
        return not self.uncut and (passes == "all" or (self.last and passes == "last"))

    @property
    def blocks(self) -> int:
        """Number of blocks of a released score."""
        return 1 + (1 + self.policy.by_leverage if self.two_clips else 0)

    @property
    def clip_of_weights(self) -> float:
        """C if rows are weighed so that no score is cut, else 0."""
        return self.clip if self.uncut else 0.0

    @property
    def variance_of_score(self) -> float:
        """Variance of the mean score along a direction in w, over phi, by noise and by rows."""
        return (self.noise.score / self.rows) ** 2 + 1.0 / self.rows

    def of_rows(self, rows: float) -> PassPlan:
        """Return the pass with a released number of rows in place of the guess."""
        part = self.tail_rows / self.rows
        return replace(self, rows=rows, tail_rows=rows * part)

    def of_part(self, part: float) -> PassPlan:
        """Return the pass with this part of its rows: clip and radii follow it, as they follow n.

        Noise is in proportion to them, so the ledger stays as it is, as in :meth:`suited`.
        """
        if part >= 1.0:
            return self
        least = rules.MIN_NARROW_RADIUS if self.policy.narrow else rules.MIN_RADIUS
        R2, J2 = self.information**2, self.meat**2
        H = min(1.0, max(least * self.p / R2, part**rules.INFORMATION_POWER))
        J = min(1.0, max(rules.MIN_RADIUS * self.p / J2, math.sqrt(part))) if J2 else 1.0
        low = self.policy.clip * math.sqrt(self.p) / self.clip
        C = min(1.0, max(low, part**rules.CLIP_POWER))
        noise = replace(
            self.noise, information=self.noise.information * H, score=self.noise.score * C,
            meat=self.noise.meat * J,
        )  # fmt: skip
        smaller = replace(
            self, information=self.information * math.sqrt(H), clip=self.clip * C,
            meat=self.meat * math.sqrt(J), noise=noise,
        )  # fmt: skip
        return smaller.of_rows(self.rows * part)

    def suited(
        self, longest: float, score: Model | Traits, last: PassPlan,
        most: tuple[float, float] = (math.inf, math.inf),
    ) -> PassPlan:  # fmt: skip
        """Return the pass with a clip for L, the ``longest`` score that a typical row can have.

        Rows of a bounded response are weighed before it is seen, with ``C = min(.8 C, 1.2
        sqrt(n)/q)``, in least squares at least L. The second C, n and q, the noise sd of the sum of
        scores over C, are those of the ``last`` pass. A shorter C has less noise, but moves the
        target of a model that is not exact (``method.md``, 5.11). Else a second clip tells what the
        first took in the last pass, and C is a part of the rule's.

        ``most``: the largest |v| and |s| in the declared ranges (inf: no bound), by public and
        released numbers; radii are no larger. No proof depends on these numbers: longer rows are
        clipped in any case. Noise is in proportion to a radius, so the ledger stays as it is.
        """
        rare = rules.RARE_CLIP * longest > rules.HUMP_PART * self.clip
        weighs = score.outcomes is not None and (rare or score.bounded)
        clip = rules.FIRST_CLIP * self.clip if self.two_clips else self.clip
        if weighs:
            over_error = last.noise.score / last.clip / math.sqrt(last.rows)  # noise over sampling
            least = longest if score.averages else 0.0  # no line fits a share exactly
            clip = max(least, min(rules.UNCUT_CLIP * last.clip, rules.UNCUT_NOISE / over_error))
        noise = replace(self.noise, score=self.noise.score * clip / self.clip)
        R, C, no_cut = min(self.information, most[0]), min(clip, most[1]), self.whole
        if self.information > R or clip > C:
            noise = replace(
                noise, information=noise.information * (R / self.information) ** 2,
                score=noise.score * C / clip,
            )  # fmt: skip
            no_cut = most[1] <= C
        return replace(
            self, information=R, clip=C, noise=noise, whole=no_cut, uncut=weighs,
            weighted=self.weighted or weighs, rare=rare,
        )  # fmt: skip


def passes_of(pass_shares: PassShares, mu: float, n: int, p: int) -> tuple[float, ...]:
    """Return the shares of mu^2 of the start and the passes, for units that are rows."""
    if p < rules.COLUMNS or pass_shares not in (
        rules.LINEAR, rules.BENT, rules.OPENED, rules.BOUNDED
    ):
        return pass_shares.passes
    return (
        rules.MANY_COLUMNS if columns_noise(mu, n, p) > rules.WIDE_NOISE else rules.STRONG_COLUMNS
    )


def longer(passes: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """Yield the shares of a fit with extra passes, taken from the last pass, fixed before data.

    ``passes``: those of the start and the planned passes.
    """
    *early, last = passes
    while len(early) <= rules.MAX_EARLY_PASSES:
        early.append(rules.EXTRA_PASS_SHARE * last)
        last *= 1.0 - rules.EXTRA_PASS_SHARE
        yield (*early, last)


@functools.lru_cache(maxsize=512)
def plan_pass(
    pass_shares: PassShares, k: int, mu: float, n: int, p: int, relation: str, *, meat: bool,
    tail: int, weighted: bool = False, policy: ClipPolicy = rules.TAME, of_weights: bool = False,
) -> PassPlan:  # fmt: skip
    """Return pass k >= 1 of these shares, ``len(pass_shares.passes) - 1`` the last.

    ``mu``: strength of the whole fit with the start; ``n``: rows that the pass reads (public, a
    guess, or expected under coins); ``tail``: rows from which the meat of the last pass is
    computed. Without ``meat`` the last pass releases the scale in place of J.
    ``of_weights``: rows have case weights, so scores have long tails.
    """
    last = k == len(pass_shares.passes) - 1
    share = _shares(pass_shares, last=last, meat=meat)
    if of_weights and share["scale"]:
        factor = (1.0 - rules.SCALE_SHARE_OF_WEIGHTS) / (1.0 - share["scale"])
        share = {name: factor * part for name, part in share.items()}
        share["scale"] = rules.SCALE_SHARE_OF_WEIGHTS
    mu_pass = mu * math.sqrt(pass_shares.passes[k])
    gram_l2 = sensitivity(Gram(Ball(p)), relation, "l2")
    twice = sensitivity(Sum(Ball(p)), relation, "l2")
    # In separate releases of these shares the noise sds would be reach / (mu sqrt(share)); the
    # joint release keeps their ratios and gives back what its smaller sensitivity saves.
    matrices = share["information"] + share["meat"]
    total = matrices + share["score"]
    joint = joint_sensitivity(matrices / gram_l2**2, share["score"] / twice**2, relation, p)
    gain = math.sqrt(total) / joint
    effective_mu = {name: mu_pass * math.sqrt(x) * gain for name, x in share.items()}
    H2 = p * _radius(effective_mu["information"] * n / p, p, policy)
    C = max(
        policy.clip * math.sqrt(p),
        rules.CLIP_FACTOR * (effective_mu["score"] * n) ** rules.CLIP_POWER,
    )
    J2 = 0.0
    if share["meat"]:
        J2 = p * max(
            rules.MIN_RADIUS, rules.MEAT_FACTOR * math.sqrt(effective_mu["meat"] * tail / p)
        )
    cut = rules.SCALE_CUT
    if of_weights:
        cut = max(rules.SCALE_CUT_OF_WEIGHTS, (rules.SCALE_CUT_OVER_CLIP * C) ** 2 / p)
        # the meat of heavy rows is what moderate radii cut off: up to C, where its noise allows
        J2 = (
            max(J2, min(C * C, rules.MEAT_NOISE * effective_mu["meat"] * tail / gram_l2))
            if J2
            else 0.0
        )
    mu_scale = mu_pass * math.sqrt(share["scale"])
    mu_histogram = mu_pass * math.sqrt(share["histogram"])
    one_bin = sensitivity(Sum(OneHot(2)), relation, "l2")
    noise = Noise(
        information=gram_l2 * H2 / effective_mu["information"],
        score=twice * C / effective_mu["score"],
        meat=gram_l2 * J2 / effective_mu["meat"] if J2 else 0.0,
        scale=cut * p / mu_scale if mu_scale else 0.0,
        count=one_bin / mu_histogram if mu_histogram else 0.0,
    )
    return PassPlan(
        p, last, mu_pass * math.sqrt(total), mu_scale, mu_histogram, math.sqrt(H2), C,
        math.sqrt(J2), noise, relation, n, tail, weighted,
        policy=policy, strength=mu * n, scale_cut=cut * p,
    )  # fmt: skip


def _radius(x: float, p: int, policy: ClipPolicy) -> float:
    """Return R_H^2 over p, x = mu_H n / p.

    It grows with x, as what is clipped is missing in the Newton step; with many columns it is cut
    where the spectral noise of the information would exceed about a quarter.
    """
    free = rules.INFORMATION_FACTOR * x**rules.INFORMATION_POWER
    if not policy.narrow:
        return max(rules.MIN_RADIUS, free)
    return max(rules.MIN_NARROW_RADIUS, min(free, rules.NARROW_FACTOR * x / math.sqrt(p)))


def _shares(pass_shares: PassShares, *, last: bool, meat: bool) -> dict[str, float]:
    """Return each sum's share of the pass's mu^2, 0 if the sum is not released."""
    if not last:
        return {
            "information": pass_shares.information, "score": pass_shares.score, "meat": 0.0,
            "scale": pass_shares.scale, "histogram": 0.0,
        }  # fmt: skip
    return {
        "information": pass_shares.last_information, "score": pass_shares.last_score,
        "meat": pass_shares.meat if meat else 0.0, "scale": 0.0 if meat else pass_shares.meat,
        "histogram": pass_shares.histogram,
    }  # fmt: skip


def noise_ratio(mu: float, p: int, n: int) -> float:
    """Return ``x = sqrt(8) sqrt(2p) / (mu n)``: public, the noise relative to the trace of X'X."""
    return math.sqrt(8.0) * math.sqrt(2.0 * p) / (mu * n)


def coin_share(noise: float, n: int) -> int:
    """Return k: a pass between the first and the last reads each row with probability 1/k.

    ``noise``: ``PILOT_NOISE`` over the public noise ratio; of the start ``FIRST_NOISE``
    (``models/linear/theory.md``, 3.2).
    """
    return power_of_two(min(noise, rules.PILOT_COINS, n / rules.PILOT_ROWS))


def pilot_windows(design: Design, n: int, x: float) -> Windows:
    """Return the rows that the first of two stages reads, by public numbers.

    ``models/linear/theory.md``, 3.2.

    n is the public row count, so the relation must be replace-one; x the public noise ratio.
    """
    local = any(c.kind not in _SPREAD for c in design.columns) or any(
        v.kind != "real" for v in design.kinds.values()
    )
    apart = power_of_two(n / (rules.PILOT_PLACES[local] * WINDOW))
    every = power_of_two(min(rules.PILOT_NOISE / x, rules.PILOT_COINS, apart))
    return Windows(every, 1 if local else apart // every)


def power_of_two(most: float) -> int:
    """Return the largest power of two up to ``most``, at least 1."""
    return 1 << max(int(most).bit_length() - 1, 0)


@dataclass(frozen=True)
class Pilot:
    """Pilot samples of a large table: rows for early passes, and for the meat."""

    every: int = 1  # Each row with probability 1 / every, by secret coins ..
    # ... or whole windows of rows, where the order of the rows is public.
    windows: Windows = ALL_ROWS
    first: int = 1  # The start: each row with probability 1 / first, by secret coins

    def start(self, n: int) -> int:
        """Return how many of n rows the start reads (expected, under coins). Public."""
        return max(n // self.first, 1)

    def early(self, n: int) -> int:
        """Return how many of n rows the early passes read (expected, under coins). Public."""
        by_place = self.windows.every > 1
        return max(self.windows.count(n) if by_place else n // self.every, 1)

    def tail(self, n: int) -> int:
        """Return the number of rows from which the meat is computed."""
        return max(n // self.every, 1)

    def read_start(self, passes: int) -> Read:
        """Return the rows for the start, and with them the coins of ``passes`` early passes.

        The reader of the rows for the start may store the rows that these coins choose.
        """
        ahead = passes if self.every > 1 and self.windows.every == 1 else 0
        return Read(self.first, then=(self.every,) * ahead)

    def read(self, *, last: bool = False) -> Read:
        """Return the rows for a pass: all for the last, with a sample for the meat."""
        if last:
            return Read(inner=self.every)
        return Read(1 if self.windows.every > 1 else self.every, self.windows)


def shares_of_units(*, last: bool, scale: bool) -> UnitShares:
    """Return the shares within a pass."""
    of = rules.LAST if last else rules.EARLY
    if last or not scale:
        return of
    return replace(of, scale=rules.SCALE_SHARE, score=of.score - rules.SCALE_SHARE)


def information_of_units(x: float, p: int) -> float:
    """Return R_H^2 over the trace of the information of a unit, x = mu_H N / p."""
    free = max(rules.MIN_RADIUS_OF_UNITS, rules.INFORMATION_FACTOR * x**rules.INFORMATION_POWER)
    return max(rules.MIN_NARROW_RADIUS, min(free, rules.NARROW_FACTOR_OF_UNITS * x / math.sqrt(p)))


def largest_information(mu: float, N: float) -> float:
    """Return the largest information of a person, over the mean: ``max(1.5, mu^2 N/150)``.

    The variance of the noise is to that of sampling as 1 to ``mu^2 N``. Where it is large, long
    records cost more than they tell. Where it is small all people count in full, as weights change
    what a model that is not exact estimates.
    """
    return max(rules.LEAST_INFORMATION_OF_PEOPLE, mu * mu * N / rules.WEIGHED_UP_TO)


def forecast(mu: float, N: int, p: int, last: float) -> float:
    """Return the public forecast of the released noise of the information over its size.

    ``rho = 2 p^1.5 R/m``, ``m = mu_H N`` of the last pass, R the radius^2 over the trace; ``mu`` is
    of the whole fit, ``last`` the share of the last pass.
    """
    m = mu * math.sqrt(rules.LAST.information * last) * N
    if not m > 0.0:
        return math.inf
    return 2.0 * p**1.5 * information_of_units(m / p, p) / m


def needed(mu: float, N: int, p: int, last: float) -> tuple[int, float, int]:
    """Return (the N, the factor of mu, the largest p) at which the forecast is fine. Public."""
    low, high, low_noise = 1.0, 2.0, rules.OF_UNITS.low_noise
    while forecast(mu * high, N, p, last) > low_noise and high < 1e9:
        low, high = high, high * 2.0
    for _ in range(50):
        middle = math.sqrt(low * high)
        noisy = forecast(mu * middle, N, p, last) > low_noise
        low, high = (middle, high) if noisy else (low, middle)
    most = 0
    while most < p and forecast(mu, N, most + 1, last) <= low_noise:
        most += 1
    return math.ceil(N * high), high, most
