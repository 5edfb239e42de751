"""Public rules of private Fisher scoring: shares, radii, clips, as functions of (mu, n, p).

All shares are shares of mu^2. E|s|^2 is about p in all that follows (``method.md``, 3).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpmodels.proof.prove import joint_sensitivity, sensitivity
from dpmodels.proof.sets import Ball, OneHot
from dpmodels.proof.statistics import Gram, Sum
from dpmodels.sources.rows import ALL_ROWS, Windows
from dpmodels.sources.tables import WINDOW
from dpmodels.sums.ask import Read

if TYPE_CHECKING:
    from dpmodels.arrays import Array
    from dpmodels.formula.design import Design

# -- How the passes of a model treat rows: one record a kind of model, chosen by public numbers


#: From this many columns on a model of a residual has many; the same for the shares of its passes,
#: where the noise (:func:`columns_noise`) is above the second number too.
COLUMNS, WIDE_NOISE = 6, 0.008
#: The same for models of a mean.
COLUMNS_OF_MEANS = 10


@dataclass(frozen=True)
class ClipPolicy:
    """Options of a pass over rows that differ between kinds of models."""

    # Scores carry the weight ``min(1, R_H^2/|v|^2)`` that the ball of the information gives a row
    # anyway: step and information are of one weighted fit (Mallows).
    by_leverage: bool = False
    # The released information is shrunk towards its mean eigenvalue by the part of its spread that
    # noise explains. The last step loses a part of its noise.
    shrinks: bool = False
    signed: bool = False  # The histogram of lengths is by the sign of the score
    narrow: bool = False  # The radius of the information follows its noise
    clip: float = 1.5  # Least C over sqrt p
    ordinary: float = 2.0  # Least R_L^2 over p: up to there rows count as ordinary
    far: bool = False  # Whether the excess over C is released too if mu n is large


#: Scores with a bound (quantiles, Huber), with few columns.
TAME = ClipPolicy()
#: Least squares with few and with many columns.
LEAST_SQUARES = ClipPolicy(far=True)
WIDE_LEAST_SQUARES = ClipPolicy(
    by_leverage=True, shrinks=True, signed=True, narrow=True, clip=1.0, ordinary=1.5, far=True
)
#: Models of a mean with few columns; these and scores with a bound with many.
FEW = ClipPolicy(by_leverage=True)
MANY = ClipPolicy(by_leverage=True, shrinks=True)


def columns_noise(mu: float, n: int, p: int) -> float:
    """Return ``p^1.5/(mu n)``, which the spectral noise of an information grows with. Public."""
    return p**1.5 / (mu * n) if mu > 0.0 and n > 0 else float("inf")


def policy_of(p: int, *, averages: bool, of_mean: bool) -> ClipPolicy:
    """Return the clipping policy of a model, by public numbers.

    ``averages``: the information does not depend on the fit, as of least squares; ``of_mean``: a
    family with a link.
    """
    if averages:
        return WIDE_LEAST_SQUARES if p >= COLUMNS else LEAST_SQUARES
    if of_mean:
        return MANY if p >= COLUMNS_OF_MEANS else FEW
    return MANY if p >= COLUMNS else TAME


#: Largest distance of a start of events or counts from the mean row at public rows, in units of the
#: link (``method.md``, 3): a pass takes back about three.
REACH_OF_START = 4.0
#: Where n is private, a released count this many noise sds above zero stands for its guess.
SEEN_COUNT = 4.0


def released_count(counts: Array, sd: float) -> float | None:
    """Return the units that a noisy histogram of all of them holds, or None if noise hides it."""
    total = float(counts.sum())
    return total if total > SEEN_COUNT * sd * math.sqrt(len(counts)) else None


#: Radius of the meat, over p: least, and factor of the root of mu n / p.
MEAT = (4.0, 0.8)
#: Largest squared score that counts in the scale, over p. For rows with weights (whose scores have
#: long tails, and whose scale is that of their tails) it is at least the second number, and the
#: third number times C, squared.
CUT, CUT_OF_WEIGHTS, CLIPS_OF_WEIGHTS = 6.0, 36.0, 1.5
#: Noise of their meat over the size that it has, up to which its radius grows to C.
MEAT_NOISE = 0.10
#: Share of an early pass that goes to that scale.
SCALE_OF_WEIGHTS = 0.10
#: Scores are kept up to this part of C (:func:`dpmodels.scoring.passes.softened`).
KEPT = 0.65
#: Where typical long scores all have one length, C is at least this part of the rule's.
LEAST_CLIP = 0.8
#: Radius of the information where it follows its noise: least over p, and factor of x/sqrt p.
NARROW = (1.75, 0.12)
#: Directions of scores beyond C: share of the last pass, and mu n from which on.
FAR_SHARE, FAR_FROM = 0.15, 8000.0


@dataclass(frozen=True)
class Rules:
    """Shares of one family of models."""

    passes: tuple[float, ...]  # Share of the start and of every scoring pass
    # information, score, scale: shares within a pass that is not the last.
    information: float = 0.30
    score: float = 0.66
    scale: float = 0.04
    # spread, last_information, last_score, meat, histogram: shares within the last pass. ``spread``
    # is the share of the information of ordinary rows; the others divide the remainder.
    spread: float = 0.05
    last_information: float = 0.18
    last_score: float = 0.68
    meat: float = 0.07
    histogram: float = 0.07


LINEAR = Rules((0.15, 0.20, 0.65))
#: The same after a start of another kind (:class:`~dpmodels.scoring.run.Opening`), which is noisier
#: than that of the joint ball: it has an additional pass.
OPENED = Rules((0.15, 0.09, 0.13, 0.63))
#: Shares of models of a residual with many columns: the noise of the early passes decides.
#: The same where it is small: two, as it takes two steps to see that a fit is on its way.
STRONG_COLUMNS = (0.15, 0.07, 0.13, 0.65)
MANY_COLUMNS = (0.18, 0.06, 0.09, 0.15, 0.52)
EVENT = Rules((0.12, 0.08, 0.10, 0.15, 0.55))
#: Models with a bounded score (their density gives the scale, so none is released).
BOUNDED = Rules((0.15, 0.12, 0.15, 0.58), information=0.33, score=0.67, scale=0.0)
COUNT = Rules((0.12, 0.08, 0.10, 0.15, 0.55))

#: Models of a residual: an additional pass takes this part of the last one's share, which stays at
#: least LEAST_LAST of all. At most MOST_PASSES are before the last (``method.md``, 3.2).
A_PASS_MORE, LEAST_LAST, MOST_PASSES = 0.18, 0.2, 6
#: The step that pays for the last pass and those.
RESERVE = "passes from the reserve"

#: Names of the two histograms of numbers.
PLACES, DISTANCES = "places of values", "scales of values"
#: Cells of a range.
CELLS = 64
#: Octaves of a square (half octaves of a length): bin i holds [2^(i - OCTAVE_ZERO), twice that).
OCTAVES, OCTAVE_ZERO = 96, 64
#: Share of mu^2 that fit statistics take where they are asked for; their step in the ledger.
STATISTICS_SHARE, STATISTICS_STEP = 0.10, "fit statistics"


@dataclass(frozen=True)
class Noise:
    """Noise sds of the sums of one pass (matrices in svec coordinates), in their own units.

    0: not released.
    """

    information: float
    score: float
    meat: float = 0.0
    spread: float = 0.0
    scale: float = 0.0
    count: float = 0.0
    far: float = 0.0


@dataclass(frozen=True)
class PassPlan:
    """One scoring pass, decided from public numbers."""

    p: int  # Dimension of u
    last: bool
    # mu_joint, mu_scale, mu_histogram: mu of the joint release of matrices and scores, of the
    # scale, and of the histogram (0 if it is not released).
    mu_joint: float
    mu_scale: float
    mu_histogram: float
    # information, clip, meat, spread: radii: R_H of v, C of scores, R_J of scores in the meat, R_L
    # of ordinary rows (0: none). The scale is cut at ``cut p``.
    information: float
    clip: float
    meat: float
    spread: float
    noise: Noise
    relation: str
    # rows, tail_rows: how many rows the sums are of, public (expected under coins): all released
    # sums; and meat and ordinary information.
    rows: float
    tail_rows: float
    weighted: bool = False  # Rows have weights omega: scores are rounded on a separate lattice
    # No score of the declared box is longer than C: none is clipped or softened.
    whole: bool = False
    people: bool = False  # The unit is a person: sums are of people, and ``rows`` counts them
    policy: ClipPolicy = TAME  # Clipping and weighting of rows
    plain: bool = False  # Scores are cut at C and not softened below it
    # Most long scores are of one length, that of rare events: C lies beyond it.
    unimodal: bool = False
    strength: float = 1.0  # mu n of the whole scoring
    mu_far: float = 0.0  # mu of the directions of scores beyond C, 0 if they are not released
    scale_cut: float = 0.0  # Largest squared score in the sum that estimates the scale
    # Mean squared noise of a matrix over what its sd, that of its spectral norm, says.
    energy: float = 1.0
    # Rows have case weights: the meat counts scores up to C, and the excess may all have one sign.
    of_weights: bool = False

    @property
    def count(self) -> float:
        """Noise sd of a bin of lengths, or of the sum of two bins of a signed histogram."""
        return self.noise.count * (math.sqrt(2.0) if self.policy.signed else 1.0)

    @property
    def unsoftened(self) -> bool:
        """Whether scores are cut at C and kept whole below it."""
        return self.whole or self.plain

    def of_rows(self, rows: float) -> PassPlan:
        """Return the pass with a released number of rows in place of the guess."""
        part = self.tail_rows / self.rows
        return replace(self, rows=rows, tail_rows=rows * part)

    def within(self, row: float, score: float) -> PassPlan:
        """Return the pass with its radii no larger than rows and scores can be.

        Largest |v| and |s| of the declared box (inf: no bound), by public and released numbers. No
        proof rests on them: what is longer is cut as ever. Noise is in proportion to a radius, so
        the ledger stays as it is.
        """
        R, C = self.information, self.clip
        if row >= R and score >= C:
            return self
        R, C = min(R, row), min(C, score)
        noise = replace(
            self.noise,
            information=self.noise.information * (R / self.information) ** 2,
            score=self.noise.score * C / self.clip,
        )
        return replace(self, information=R, clip=C, noise=noise, whole=score <= C)

    def reaching(self, length: float, *, bounded: bool) -> PassPlan:
        """Return the pass with a clip that typical long scores do not reach.

        Their ``length`` (of rare events or counts) is by released numbers. ``bounded`` residuals:
        long scores are of long rows, so C may be smaller than by the rule. Noise is in proportion
        to C, so the ledger stays as it is, as in :meth:`within`.
        """
        unimodal = length > KEPT * self.clip
        if not (unimodal or bounded):
            return self
        clip = max(length, LEAST_CLIP * self.clip) if bounded else length
        return self.clipped_at(clip, unimodal=unimodal)

    def clipped_at(self, clip: float, *, unimodal: bool) -> PassPlan:
        """Return the pass with scores cut at ``clip``; noise is in proportion to it."""
        scale = clip / self.clip
        noise = replace(self.noise, score=self.noise.score * scale)
        return replace(self, clip=clip, noise=noise, plain=True, unimodal=unimodal)


def passes_of(rules: Rules, mu: float, n: int, p: int) -> tuple[float, ...]:
    """Return the shares of the start and the passes, where the unit is a row."""
    if p < COLUMNS or rules not in (LINEAR, OPENED, BOUNDED):
        return rules.passes
    return MANY_COLUMNS if columns_noise(mu, n, p) > WIDE_NOISE else STRONG_COLUMNS


def longer(passes: tuple[float, ...]) -> Iterator[tuple[float, ...]]:
    """Yield the shares of a fit with extra passes, paid by the last pass and fixed before data.

    ``passes``: those of the start and the planned passes.
    """
    *early, last = passes
    while len(early) <= MOST_PASSES and (1.0 - A_PASS_MORE) * last >= LEAST_LAST:
        early.append(A_PASS_MORE * last)
        last *= 1.0 - A_PASS_MORE
        yield (*early, last)


@functools.lru_cache(maxsize=512)
def plan_pass(
    rules: Rules, k: int, mu: float, n: int, p: int, relation: str, *, meat: bool, tail: int,
    weighted: bool = False, policy: ClipPolicy = TAME, of_weights: bool = False,
) -> PassPlan:  # fmt: skip
    """Return pass k >= 1 of the rules, ``len(rules.passes) - 1`` the last.

    ``mu`` is of the whole scoring, start included; ``n`` the rows that the pass reads (public, a
    guess, or expected under coins), ``tail`` those that meat and ordinary information of the last
    pass are of. Without a ``meat`` the scale goes out there, at the price of J. ``of_weights``:
    rows have weights of their own, so scores are of long tails.
    """
    last = k == len(rules.passes) - 1
    share = _shares(rules, last=last, meat=meat)
    if of_weights and share["scale"]:
        rest = (1.0 - SCALE_OF_WEIGHTS) / (1.0 - share["scale"])
        share = {name: rest * one for name, one in share.items()} | {"scale": SCALE_OF_WEIGHTS}
    mu_pass = mu * math.sqrt(rules.passes[k])
    far = FAR_SHARE if last and policy.far and mu * n > FAR_FROM else 0.0
    share = {name: (1.0 - far) * one for name, one in share.items()}
    mu_far = mu_pass * math.sqrt(far)
    own = sensitivity(Gram(Ball(p)), relation, "l2")
    twice = sensitivity(Sum(Ball(p)), relation, "l2")
    # In separate releases of these shares the noise sds would be reach / (mu sqrt(share)); the
    # joint release keeps their ratios and gives back what its smaller sensitivity saves.
    matrices = share["information"] + share["meat"] + share["spread"]
    total = matrices + share["score"]
    joint = joint_sensitivity(matrices / own**2, share["score"] / twice**2, relation, p)
    gain = math.sqrt(total) / joint
    effective_mu = {name: mu_pass * math.sqrt(x) * gain for name, x in share.items()}
    H2 = p * _radius(effective_mu["information"] * n / p, p, policy)
    C = max(policy.clip * math.sqrt(p), 0.36 * (effective_mu["score"] * n) ** 0.45)
    least, grows = MEAT
    J2 = 0.0
    if share["meat"]:
        J2 = p * max(least, grows * math.sqrt(effective_mu["meat"] * tail / p))
    L2 = policy.ordinary * p if share["spread"] else 0.0
    cut = CUT
    if of_weights:
        cut = max(CUT_OF_WEIGHTS, (CLIPS_OF_WEIGHTS * C) ** 2 / p)
        # the meat of heavy rows is what moderate radii cut off: up to C, where its noise allows
        J2 = max(J2, min(C * C, MEAT_NOISE * effective_mu["meat"] * tail / own)) if J2 else 0.0
    mu_scale = mu_pass * math.sqrt(share["scale"])
    mu_histogram = mu_pass * math.sqrt(share["histogram"])
    one_bin = sensitivity(Sum(OneHot(2)), relation, "l2")
    noise = Noise(
        information=own * H2 / effective_mu["information"],
        score=twice * C / effective_mu["score"],
        meat=own * J2 / effective_mu["meat"] if J2 else 0.0,
        spread=own * L2 / effective_mu["spread"] if L2 else 0.0,
        scale=cut * p / mu_scale if mu_scale else 0.0,
        count=one_bin / mu_histogram if mu_histogram else 0.0,
        far=twice / mu_far if mu_far else 0.0,
    )
    return PassPlan(
        p, last, mu_pass * math.sqrt(total), mu_scale, mu_histogram, math.sqrt(H2), C,
        math.sqrt(J2), math.sqrt(L2), noise, relation, n, tail, weighted,
        policy=policy, strength=mu * n, mu_far=mu_far, scale_cut=cut * p,
        of_weights=of_weights,
    )  # fmt: skip


def _radius(x: float, p: int, policy: ClipPolicy) -> float:
    """Return R_H^2 over p, x = mu_H n / p.

    It grows with x, as what is clipped is missing in the Newton step; with many columns it is cut
    where the spectral noise of the information would exceed about a quarter.
    """
    free = 0.22 * x**0.7
    if not policy.narrow:
        return max(4.0, free)
    least, factor = NARROW
    return max(least, min(free, factor * x / math.sqrt(p)))


def _shares(rules: Rules, *, last: bool, meat: bool) -> dict[str, float]:
    """Return each sum's share of the pass's mu^2, 0 if the sum is not released."""
    if not last:
        return {
            "information": rules.information, "score": rules.score, "meat": 0.0, "spread": 0.0,
            "scale": rules.scale, "histogram": 0.0,
        }  # fmt: skip
    rest = 1.0 - rules.spread
    return {
        "information": rest * rules.last_information,
        "score": rest * rules.last_score,
        "meat": rest * rules.meat if meat else 0.0,
        "spread": rules.spread,
        "scale": 0.0 if meat else rest * rules.meat,
        "histogram": rest * rules.histogram,
    }


# -- Which rows of a large table the early passes of a fit read: public rules


#: A first stage reads one run of windows in k up to a noise ratio of this over k ...
PILOT_NOISE = 1e-3
#: (a first release, whose noise decides which directions are seen at all, by coins: this over k)
FIRST_NOISE = 1e-4
#: ... with k at most this (at most the second where columns may be local) ...
PILOT_EVERY = (32, 4)
#: ... (by coins: at most this: beyond it the coins cost more than the rows) ...
PILOT_COINS = 8
#: ... from at least this many places of the table ...
PILOT_PLACES = (8, 16)
#: ... that are at most this many windows apart (2^21 rows).
PILOT_PERIOD = 256
#: Kinds of columns that vary wherever one looks; the others may be constant over parts of a table.
_SPREAD = ("intercept", "numeric", "product")


def noise_ratio(mu: float, p: int, n: int) -> float:
    """Return ``x = sqrt(8) sqrt(2p) / (mu n)``: public, the noise relative to the trace of X'X."""
    return math.sqrt(8.0) * math.sqrt(2.0 * p) / (mu * n)


def pilot_share(x: float) -> int:
    """Return k: a pass between the first and the last reads each row with probability 1/k."""
    return power_of_two(min(PILOT_NOISE / x, PILOT_COINS))


def first_share(x: float) -> int:
    """Return k: the first of two stages reads each row with probability 1/k (``models/linear/theory.md`` 3.2)."""
    return power_of_two(min(FIRST_NOISE / x, PILOT_COINS))


def pilot_windows(design: Design, n: int, x: float) -> Windows:
    """Return the rows that the first of two stages reads, by public numbers (``models/linear/theory.md`` 3.2).

    n is the public row count, so the relation must be replace-one; x the public noise ratio.
    """
    local = any(c.kind not in _SPREAD for c in design.columns) or any(
        v.kind != "real" for v in design.kinds.values()
    )
    apart = power_of_two(min(n / (PILOT_PLACES[local] * WINDOW), PILOT_PERIOD))
    every = power_of_two(min(PILOT_NOISE / x, PILOT_EVERY[local], apart))
    return Windows(every, 1 if local else apart // every)


def power_of_two(most: float) -> int:
    """Return the largest power of two up to ``most``, at least 1."""
    return 1 << max(int(most).bit_length() - 1, 0)


@dataclass(frozen=True)
class Pilot:
    """Pilot samples of a large table: rows for early passes, and for meat and ordinary rows."""

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
        """Return how many rows meat and ordinary information are of."""
        return max(n // self.every, 1)

    def read_start(self, passes: int) -> Read:
        """Return the rows for the start, and with them the coins of ``passes`` early passes.

        Whoever reads the rows for the start may keep what they choose.
        """
        ahead = passes if self.every > 1 and self.windows.every == 1 else 0
        return Read(self.first, then=(self.every,) * ahead)

    def read(self, *, last: bool = False) -> Read:
        """Return the rows for a pass: all for the last, with a sample for meat and information."""
        if last:
            return Read(inner=self.every)
        return Read(1 if self.windows.every > 1 else self.every, self.windows)


# -- What the public noise of an information lets expect of intervals: one record a strategy


@dataclass(frozen=True)
class Forecast:
    """Limits for the noise of the information over its size, and the words for them in a plan."""

    # low_noise, high_noise: up to the first intervals are as narrow as they can be; above the
    # second coefficients are not determined.
    low_noise: float
    high_noise: float
    # between, beyond: words for intervals between the two limits, and above the second.
    between: str
    beyond: str

    def of(self, noise: float) -> tuple[str, str]:
        """Return a forecast for the coefficients: one word, and the sentence of a plan."""
        said = f"forecast: noise is {noise:.0%} of the signal, so "
        low, high = f"{self.low_noise:.0%}", f"{self.high_noise:.0%}"
        if noise <= self.low_noise:
            return "fine", f"{said}intervals will be about as narrow as they can be (below {low})"
        if noise <= self.high_noise:
            return "rough", f"{said}intervals will be {self.between} (between {low} and {high})"
        return "not determined", f"{said}{self.beyond} (above {high})"


#: Rows: the planned spectral noise ``nu sqrt(2 p)`` over the information of the declared box.
OF_ROWS = Forecast(0.25, 0.5, "rough", "many coefficients will not be determined")
#: Units, linear models of units, and quantiles with bounded losses: the noise of the released
#: information over the information of the rows. Of 2 200 random designs 4.0 % fell on the other
#: side of it than their fits (``scoring/intervals.py``).
OF_UNITS, OF_LINEAR_UNITS, OF_BOUNDED_UNITS = (
    Forecast(0.35, high_noise, "wide", "coefficients will not be determined at this budget")
    for high_noise in (1.0, 1.2, 0.4)
)


# -- Passes over units. Found before the intervals were calibrated, and frozen since: by judgement
# where no measurement is named (``method.md``, 8)


#: Places, scales and passes, in shares of mu^2 (3.1, 3.3, 3.4): three passes where a score is
#: linear, else four.
LINEAR_UNITS = (0.04, 0.04, 0.09, 0.12, 0.71)
NONLINEAR_UNITS = (0.04, 0.04, 0.05, 0.07, 0.10, 0.70)
#: The information is shrunk towards the identity of the coordinates it is looked at in: the pass
#: before made it round (3.5).
UNITS_POLICY = ClipPolicy(shrinks=True)
#: Factor and power of mu_s N in the first clip C_0 (4), its power that of rows.
GROWS, POWER = 0.30, 0.45
#: C is looked for at C_0 2^(k/4) (4).
STEPS_OF_C = range(-4, 13)
#: Part of the noise of a score that counts as bias where C is chosen (4).
NOISE_PART = 0.35
#: Radius^2 of the information over its trace: factor and power of x = mu_H N / p, and the least
#: where noise allows it (3.4); where not, factor of x/sqrt p: noise of .6 of the information.
INFORMATION_OF_UNITS, NARROW_UNITS = (3.0, 0.22, 0.7), 0.3
#: Radius^2 of the meat over the mean square of scores: least, and factor of a root of mu_J N / p
#: (3.4).
MEAT_OF_UNITS = (3.0, 0.8)
#: Floor of eigenvalues, over their mean; and the part of a step's length, in units of events, by
#: which it is damped, as exponential models overshoot from below (3.5).
FLOOR_OF_UNITS, DAMPED_OF_UNITS = 0.02, 0.5


@dataclass(frozen=True)
class UnitShares:
    """Shares of mu^2 within a pass: the histogram of lengths, and the sums."""

    lengths: float
    information: float
    meat: float
    score: float
    spread: float = 0.0
    scale: float = 0.0


#: Passes before the last, and the last (3.4); with many columns for the budget.
EARLY = UnitShares(0.08, 0.30, 0.20, 0.42)
LAST = UnitShares(0.06, 0.10, 0.05, 0.76, 0.03)
LAST_OF_COLUMNS = UnitShares(0.06, 0.15, 0.05, 0.71, 0.03)
#: Share of the scores of an early pass that the scale takes, if a model learns from it, as for
#: rows.
OF_SCALE = 0.04


def many_for_units(mu: float, N: int, p: int) -> bool:
    """Return whether a budget is small for the number of columns, as for rows. Public."""
    return p >= COLUMNS and columns_noise(mu, N, p) > WIDE_NOISE


def shares_of_units(*, last: bool, scale: bool, many: bool) -> UnitShares:
    """Return the shares within a pass; ``many``: columns are many for the budget."""
    if last:
        return LAST_OF_COLUMNS if many else LAST
    return replace(EARLY, scale=OF_SCALE, score=EARLY.score - OF_SCALE) if scale else EARLY


def information_of_units(x: float, p: int) -> float:
    """Return R_H^2 over the trace of the information of a unit, x = mu_H N / p."""
    least, factor, power = INFORMATION_OF_UNITS
    return max(NARROW[0], min(max(least, factor * x**power), NARROW_UNITS * x / math.sqrt(p)))


def forecast(mu: float, N: int, p: int, last: float) -> float:
    """Return the public forecast of the released noise of the information over its size.

    ``rho = 2 p^1.5 R/m``, ``m = mu_H N`` of the last pass, R the radius^2 over the trace; ``mu`` is
    of the whole fit, ``last`` the share of the last pass.
    """
    share = shares_of_units(last=True, scale=False, many=many_for_units(mu, N, p))
    m = mu * math.sqrt(share.information * last) * N
    if not m > 0.0:
        return math.inf
    return 2.0 * p**1.5 * information_of_units(m / p, p) / m


def needed(mu: float, N: int, p: int, last: float) -> tuple[int, float, int]:
    """Return (the N, the factor of mu, the largest p) at which the forecast is fine. Public."""
    low, high, low_noise = 1.0, 2.0, OF_UNITS.low_noise
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
