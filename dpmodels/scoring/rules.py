"""Every constant of private Fisher scoring, with its reason and its evidence.

Those of the bound of the bias are in :mod:`dpmodels.after.inference`, which evaluates it.

``constants.md`` is the table made of this file (``python .ci/constants.py``). The last bracket of a
comment is the evidence: ``[N 7]`` an entry of ``benchmarks/results/scoring_rules.md``, ``[A 7]`` of
``benchmarks/results/ablation.md``, ``[tried]`` a row of ``benchmarks/results/constants.md`` (halved
and doubled), ``[P 2.3]`` a claim of ``theory.md``, ``[exact]`` a fact of arithmetic, ``[size]`` the
size of an array, ``[name]`` the name of a step. Shares are shares of mu^2. E|s|^2 is about p in all
that follows (``method.md``, 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# bins of score lengths, which the clip set of a pass has too
from dpmodels.core.parallel import AT_CLIP as AT_CLIP
from dpmodels.core.parallel import BINS as BINS
from dpmodels.core.parallel import EXPONENT_BIAS as EXPONENT_BIAS
from dpmodels.core.parallel import MANTISSA_BITS as MANTISSA_BITS
from dpmodels.core.parallel import ROW_FACTOR_MAX as ROW_FACTOR_MAX
from dpmodels.core.units import OCTAVE_ZERO as OCTAVE_ZERO
from dpmodels.core.units import OCTAVES as OCTAVES

# -- Kinds of models over rows, chosen by public numbers

#: From this number of columns on, a model counts as one with many columns. [N 3]
COLUMNS = 6
#: Value of ``p^1.5/(mu n)`` from which on a model with many columns uses the shares for noisy
#: passes. [N 7]
WIDE_NOISE = 0.008


@dataclass(frozen=True)
class ClipPolicy:
    """Options of a pass over rows that differ between kinds of models."""

    # Scores carry the weight ``min(1, R_H^2/|v|^2)`` that the ball of the information gives a row
    # anyway: step and information are of one weighted fit (Mallows).
    by_leverage: bool = False
    narrow: bool = False  # The radius of the information follows its noise
    #: Smallest clip C, divided by sqrt p. A shorter clip has less noise and more bias. [N 7]
    clip: float = 1.5
    # Passes that release scores cut at C and at 2 C (theory 2.8). Early passes of least squares do
    # not decide where it ends.
    two_clips: Literal["all", "last", "none"] = "all"
    # Early steps lose all that noise explains: they start at the fit of public rows.
    cautious: bool = False


#: Clip policy for bounded scores (quantiles, Huber) with few columns. [A 19]
TAME = ClipPolicy()
#: Clip policy for least squares with few columns. [A 1]
LEAST_SQUARES = ClipPolicy(two_clips="last")
#: Clip policy for least squares with many columns. [N 6]
WIDE_LEAST_SQUARES = ClipPolicy(by_leverage=True, narrow=True, clip=1.0, two_clips="last")
#: Clip policy for models of a mean, and for bounded scores with many columns. [N 8]
MANY = ClipPolicy(by_leverage=True)
#: Clip policy for fits by person. [N 51]
UNITS_POLICY = ClipPolicy(two_clips="none")


# -- Shares of the passes over rows

#: Share of the residual scale within an early pass. [tried]
SCALE_SHARE = 0.04
#: Share of a pass after the fit, for its statistics or for products of cluster sums. [N 81]
CLOSING_SHARE = 0.10
#: Share of the mean weight, of the number of clusters, and of stratum totals. [N 81]
SMALL_SHARE = 0.02


@dataclass(frozen=True)
class PassShares:
    """Shares of mu^2 of one family of models, over the passes and within a pass."""

    passes: tuple[float, ...]  # Share of the start and of every scoring pass
    #: Share of the information within an early pass. [tried]
    information: float = 0.30
    #: Share of the scores within an early pass. They decide the step. [tried]
    score: float = 0.66
    scale: float = SCALE_SHARE
    #: Share of the information within the last pass. [tried]
    last_information: float = 0.18
    #: Share of the scores within the last pass. [tried]
    last_score: float = 0.68
    #: Share of the meat within the last pass. It enters the interval only. [tried]
    meat: float = 0.07
    #: Share of the histogram of score lengths within the last pass. [tried]
    histogram: float = 0.07


#: Shares of the start and two passes. More passes would converge to the clipped equation, which is
#: biased. [N 11]
LINEAR = PassShares((0.15, 0.20, 0.65))
#: Shares after a start by another method, which is noisier: two more passes, each with a small
#: share. [N 72]
OPENED = PassShares((0.15, 0.05, 0.07, 0.13, 0.6))
#: Shares for models of a residual with many columns and little noise. Two early steps show whether
#: the fit still moves. [A 20]
STRONG_COLUMNS = (0.15, 0.07, 0.13, 0.65)
#: Shares for models of a residual with many columns, where the noise of the early passes decides
#: the error. [N 7]
MANY_COLUMNS = (0.18, 0.06, 0.09, 0.15, 0.52)
#: Shares for losses of a residual whose information depends on the fit. [N 75]
BENT = PassShares(STRONG_COLUMNS)
#: Shares for models of a mean (events, counts). [A 21]
MEANS = PassShares((0.12, 0.08, 0.10, 0.15, 0.55))
#: Shares for models with a bounded score. Their density gives the scale, so no scale is released.
#: [A 21]
BOUNDED = PassShares((0.15, 0.12, 0.15, 0.58), information=0.33, score=0.67, scale=0.0)
#: Share of the reserve that an extra pass uses (method 3.2). [N 19]
EXTRA_PASS_SHARE = 0.18
#: Largest number of passes before the last. [A 8]
MAX_EARLY_PASSES = 6
#: Name of the step that pays for the last pass and for extra passes. [name]
RESERVE = "passes from the reserve"
#: C over the rule's in passes with two clips: the second tells what the first took. [N 79]
FIRST_CLIP = 0.7071
#: Excess of scores over 2 C, over their excess from C to 2 C. [N 79]
BEYOND_SECOND = 1.5
#: The same of an exponential tail, with C of 1.25 of its scales. [exact]
OF_LIGHT_TAIL = 0.4
#: Name of the step that releases the fit statistics. [name]
STATISTICS_STEP = "fit statistics"

# -- Clips and radii of a pass over rows

#: Factor of ``(mu_s n)^CLIP_POWER`` in C. If the bias is of order C^-a, the best clip is a power of
#: mu n. [N 73]
CLIP_FACTOR = 0.36
#: Power of mu n in every clip of scores. [tried]
CLIP_POWER = 0.45
#: Typical long scores longer than this part of C form a hump. C then follows their length. [A 34]
HUMP_PART = 0.65
#: Smallest R^2 of information and meat, divided by p. [tried]
MIN_RADIUS = 4.0
#: Factor of x^.7 in R_H^2/p, where x = mu n/p of this sum. Clipping the information leaves a part
#: of the step undone. [N 9]
INFORMATION_FACTOR = 0.22
#: Power of x in R_H^2/p. [tried]
INFORMATION_POWER = 0.7
#: Smallest R_H^2/p if the radius follows its noise. [N 6]
MIN_NARROW_RADIUS = 1.75
#: Factor of x/sqrt p in R_H^2/p in this case. The spectral noise of the information then stays near
#: a quarter of it. [N 2]
NARROW_FACTOR = 0.12
#: Factor of sqrt x in R_J^2/p. [tried]
MEAT_FACTOR = 0.8
#: Limit at which squared scores are clipped for the scale, divided by p. [tried]
SCALE_CUT = 6.0
#: The same limit for rows with weights, whose scores have long tails. [N 15]
SCALE_CUT_OF_WEIGHTS = 36.0
#: For rows with weights the limit is at least the square of this number times C. [N 16]
SCALE_CUT_OVER_CLIP = 1.5
#: Share of an early pass for the scale if rows have weights. [N 16]
SCALE_SHARE_OF_WEIGHTS = 0.10
#: If rows have weights, the radius of the meat grows up to C while its noise is at most this part
#: of the meat. [N 16]
MEAT_NOISE = 0.10
#: Where rows are weighed before their response is seen, C over that of the rule. [A 35]
UNCUT_CLIP = 0.8
#: There C is no longer than one whose noise is this part of a sampling error. [N 78]
UNCUT_NOISE = 1.2

# -- Bins

#: Name of the histogram of the values of numbers, by cell of their range. [name]
PLACES = "places of values"
#: Name of the histogram of distances of numbers from their centre. [name]
DISTANCES = "scales of values"
#: Cells into which a declared range is divided. [tried]
CELLS = 64
#: Number of bins, one per half octave, of distances from a centre. [size]
DISTANCE_OCTAVES = 24

# -- Coordinates, centre and scale (method 1, 3.1)

#: Unit of the response in the start, chosen so that a uniform response in [-1, 1] has unit
#: variance. [exact]
RESPONSE_UNIT = math.sqrt(3.0)
#: Number of points that represent the declared box: minimum, number per column, maximum. [tried]
BOX_POINTS = (1 << 12, 64, 1 << 15)
#: Directions with an eigenvalue below this part of the largest are aliased. [tried]
ALIASED_PART = 1e-10
#: A coefficient with this part of its squared length in aliased directions is not identified.
#: [tried]
UNIDENTIFIED_PART = 1e-6
#: Smallest whitened eigenvalue, over the largest, in a narrowed box. [tried]
MIN_NARROWED_EIGENVALUE = 1e-4
#: A column is a combination of the columns before it if they leave at most this part of its square.
#: [tried]
DEPENDENT_PART = 1e-8
#: Residual of a column by rounding alone, over its length. [exact]
ROUNDING_PART = 1e-11
#: Shares of the two histograms of numbers (values, then distances). [tried]
NUMBER_SHARES = (0.02, 0.03)
#: Smallest part of the distances that must lie in the tail that determines a scale. [tried]
TAIL_PART = 0.1
#: Noise sds from which on a count, a bin (or two neighbours), a variance, or a part of the fit of
#: the start is visible. [N 12, 80]
VISIBLE_SDS = 2.0
#: Noise sds from which on a released number is clear: a count, a step, a share of empty rows, or
#: the lack of usable rows that stops a call. [N 81]
CLEAR_OF_NOISE = 3.0
#: Smallest count in a tail, in noise sds, if only a sample of the rows is read. [tried]
CLEAR_TAIL_SDS = 100.0
#: A tail with more than this part of the rows does not determine a scale. [tried]
MAX_TAIL_PART = 0.7
#: If more than this part of the distances is in one half octave, the number has few values and no
#: normal tail. [N 17]
ONE_LENGTH_PART = 0.5
#: A range of the response may be widened until the noise of the start is this part of the scale. [A
#: 24]
START_NOISE_OF_RANGE = 0.5
#: Part of the variance of the range that is added to the squared scale of a predictor. [A 28]
RANGE_VARIANCE_PART = 0.004
#: Eigenvalues that differ by less than this relative amount count as equal. [tried]
EQUAL_EIGENVALUES = 1e-9
#: Name of the release of the mean weight. [name]
WEIGHT_STEP = "weights"
#: Number of bins of w/W, one per half octave. The last holds all smaller weights, and rows without
#: a positive weight. [size]
WEIGHT_BINS = 32

# -- Start (method 3)

#: Smallest eigenvalue of the start in public coordinates. A range that is 1000 times too wide gives
#: 1e-6. [tried]
START_FLOOR = 1e-7
#: Largest squared radius of the ball of a start with measured scales, divided by p + 1. [A 13]
START_RADIUS_MAX = 2.0
#: Largest distance, on the link scale, of public rows from the mean row in a start for events or
#: counts. [N 14]
REACH_OF_START = 4.0
#: Smallest average part of a row that the ball of the start is assumed to leave. [tried]
MIN_BALL_MASS = 0.1
#: Bounds of the mean of an event in the start. [N 35]
EVENT_MEAN = (0.01, 0.99)
#: Smallest share of the rarer outcome that is computed from a released mean. [N 35]
MIN_EVENT_SHARE = 1e-3
#: A dispersion below this is not one of counts. [N 77]
AMOUNTS_VARY = 0.2
#: Constant added to amounts before a logarithm, over the largest value of the range. [N 77]
AMOUNT_PART = 1e-3
#: Bounds of the dispersion alpha of the negative binomial. [tried]
ALPHA = (1e-3, 20.0)

# -- Newton step (method 3)

#: Floor of the eigenvalues of the information, over its spectral noise nu sqrt(2r). [tried]
FLOOR_NOISE = 0.7
#: Smallest floor of the eigenvalues in fits by person, over the mean eigenvalue. [N 6]
FLOOR = 0.05
#: The last step loses this part of the share of its square that noise explains. Early steps of
#: people are divided by 1 plus this part of their length. [N 5]
DAMPING = 0.5
#: Longest early step, root mean square change of the linear predictor: in residual sds, in spreads
#: of the response in fits by person, or without a unit. [N 81]
MAX_EARLY_STEP = 1.0
#: A pass multiplies phi by this factor times the mean squared score over its expectation. [A 31]
SCALE_UPDATE = 1.1
#: Bounds of the factor of phi in one pass. [tried]
SCALE_UPDATE_RANGE = (0.05, 5.0)
#: A step counts as more than noise if its square exceeds the part explained by noise by this
#: factor. [N 18]
STEP_OVER_NOISE = 3.0
#: A step of a model of a mean counts as a move if the linear predictor of a public row changes by
#: at least this much. [N 38]
MOVED_LINK = 0.3
#: Local scale of a quantile fit, over its asymptotic sd. The result is 1 for the median of normal
#: errors. [exact]
QUANTILE_SCALE = 1.25
#: Width of the kernel, over the local scale. [tried]
KERNEL_WIDTH = 0.35

# -- Excess over the clip (method 4)

#: (slopes, bends) of the log of counts over half octaves, as arguments of ``np.linspace``. C may
#: lie in the bulk of the scores, and counts of normal scores fall ever faster. [tried]
BULK_TAILS = ((-1.6, 3.0, 47), (0.0, 2.0, 21))
#: Largest a-priori sd of what clips take, as a part of the rows. Where noise is larger than that,
#: nearly nothing of it is given back. [N 79]
MOST_TAKEN = 0.02
#: Runs of three bins count as clear if they exceed this number of noise sds. [tried]
CLEAR_SDS = 9.0
#: Bins next to clear ones count as clear if they exceed this number of noise sds. A bin counts in
#: full from this number of its errors above the fitted curve. [N 48]
NEAR_CLEAR_SDS = 4.0
#: Number of bins assumed to hold most units if noise hides which bins do. [A 30]
HIDDEN_BINS = 7
#: Squared scores are averaged up to this quantile. [tried]
SCORE_QUANTILE = 0.995

# -- Intervals and marks (method 4)

#: Ratio of released noise to information at which errors of fits by rows begin to grow, and at
#: which they have grown fully. [N 54]
ROWS_BEAR = (4.0, 8.0)
#: The same in fits by person. [N 54]
UNITS_BEAR = (0.6, 1.2)
#: The same for quantiles and bounded losses in fits by person. [N 54]
BOUNDED_BEAR = (0.35, 0.4)
#: Largest factor by which an error grows in fits by rows. [tried]
STRETCH_MAX = 100.0
#: The same in fits by person. [N 54]
STRETCH_MAX_OF_PEOPLE = 4.0
#: Smallest value given to an eigenvalue below the floor, over the floor. [A 23]
UNRESOLVED_VALUE = 0.2
#: Factor of the part of a step that noise does not explain, in the allowance of rows, but for least
#: squares with few columns. [A 14]
UNEXPLAINED_STEP = 2.0
#: If the public noise of the information of rows exceeds this, no coefficient is tested. [A 29]
SIGNAL_IS_NOISE = 1.5
#: A coefficient with less information than this number of noise sds is not determined. [A 29]
MIN_INFORMATION_SDS = 4.0
#: Largest factor of sampling variances by the residual variance of the start. [N 22]
START_SPREAD = 12.0
#: Limit of a note in fits by person, where the spread is that of the released distribution of the
#: response. [N 56]
RESPONSE_SPREAD_OF_UNITS = 25.0
#: Smallest sampling error, over the error by the residual variance of the start. [N 22]
MIN_ERROR_PART = 0.9
#: Half the range of a response, in residual sds, from which rows that noise hides could decide a
#: slope of least squares. [N 79]
HIDING_SDS = 20.0
#: Clipped scores are noted if they move a coefficient by more than this part of its half width, and
#: separated events if an effect is larger than that. [N 79]
MUCH_MOVED = 0.5
#: A fit whose information depends on it has not converged if its last step exceeds this number of
#: noise sds. [N 55]
UNCONVERGED_SDS = 5.0
#: Logits per unit of another link, near its middle. [tried]
LOGITS = {"probit": 1.7, "cloglog": 1.3}
#: Smallest share of empty rows that is noted. [tried]
EMPTY_SHARE = 0.05
#: Largest number of public rows per set of variables. [tried]
MAX_PUBLIC_ROWS = 400
#: Largest credible effect of a term over the range of its variables, in ranges of the response.
#: [tried]
MAX_EFFECT_RANGES = 3.0
#: An effect counts as known if its half width is at most this part of it. [tried]
KNOWN_EFFECT = 0.5
#: An odds, rate or hazard ratio is not useful if it is uncertain by more than this factor. [tried]
MAX_RATIO = 100.0
#: Events are assumed to be separated if the sd of the linear predictor exceeds this number of
#: logits. [tried]
SEPARATED_LOGITS = 5.0
#: A column contributes to the separation if it has at least this part of that. [tried]
SEPARATED_PART = 0.25
#: Limit of the sd of the linear predictor, in logits, if the fit has not converged. [tried]
SEPARATED_UNCONVERGED = 4.0
#: The same in fits by person, whose steps are shorter. [tried]
SEPARATED_UNCONVERGED_OF_PEOPLE = 3.0
#: In public rows a number extends this number of released sds from its released centre. [tried]
PUBLIC_END_SDS = 3.0

# -- Rare events and counts (method 5.9)

#: Counts with a mean below this are rare. [tried]
RARE_MEAN = 1.0
#: C over the typical score length of rare events, rare counts and second values. [N 34]
RARE_CLIP = 1.75
#: Smallest expected number of events (or total count) of a level that is tested. [N 38]
MIN_EVENTS = 25.0
#: This number of noise sds of the expected events is subtracted from that limit. [N 38]
MIN_EVENTS_SDS = 0.5

# -- Fit statistics (method 5.7)

#: Largest unit deviance that is counted, in dispersions. Larger ones are clipped. [tried]
MAX_DEVIANCE = 12.0
#: Weight of the count of complete rows. It is the largest weight at which the count costs nothing.
#: [P 5.7]
COUNT_WEIGHT = 1.5
#: Number of points at which a convex function is tabulated. [tried]
DEVIANCE_POINTS = 4097
#: Smallest amount that is resolved, over the largest value of the range. [tried]
MIN_AMOUNT_PART = 2.0**-30

# -- Structure (method 3.4)

#: Largest number of multiplications of a projection. If more are needed, nothing is projected.
#: [tried]
MAX_PROJECTION_WORK = 2e9
#: Spectral norm of noise after a projection, over the root of its mean square. [N 57]
PROJECTED_NORM = 1.15

# -- Samples of a large table (models/linear/theory.md 3.2)

#: An early pass reads one run of rows in k if the noise ratio is at most this number over k.
#: [tried]
PILOT_NOISE = 1e-3
#: The same for a start, whose noise decides which directions are visible at all. [N 1]
FIRST_NOISE = 1e-4
#: Largest k if rows are chosen by coins. With a larger k the coins cost more than the rows. [tried]
PILOT_COINS = 8
#: Coins choose at least this number of rows. With fewer the error of the sample, not the noise,
#: decides where a last step begins. [N 76]
PILOT_ROWS = 50_000
#: Smallest number of places of the table that are read: in general, and if columns may be local.
#: [tried]
PILOT_PLACES = (8, 16)

# -- Errors by cluster (method 6)

#: The same if coordinates are shrunk to their average. [N 52]
CLUSTER_SHARE_AVERAGED = 0.20
#: Smallest C of the score of a row in errors by cluster, over sqrt p. [tried]
MIN_CLUSTER_CLIP = 2.5
#: Factor of ``(mu n)^CLIP_POWER`` in this C. [tried]
CLUSTER_CLIP_FACTOR = 0.12
#: The radius of cluster sums is at most that at which the noise of J is this part of its guessed
#: size. [tried]
CLUSTER_NOISE = 0.25
#: The same in fits by person, since people are fewer than rows. With clipped sums, .87 of intervals
#: for intercepts covered. [N 43]
CLUSTER_NOISE_OF_PEOPLE = 0.5
#: Allowed noise with averaged coordinates, over that with others. [N 52]
CLUSTER_NOISE_AVERAGED = 1.6
#: A plan warns if the guessed noise of J, over its size, exceeds this. [tried]
CLUSTER_NOISE_HIGH = 0.5
#: Errors are only upper bounds if the released noise of J, over its size, exceeds this. [N 42]
CLUSTER_NOISE_MAX = 1.0
#: Units are compared in pairs if the guessed noise of J is at most this. [tried]
PAIRS_NOISE = 0.35
#: Smallest credible design effect, relative to the released meat of rows. [N 42]
MIN_DESIGN_EFFECT = 0.7
#: A released number of clusters below this is refused. [tried]
MIN_RELEASED_CLUSTERS = 60
#: Stratum totals are used if the variance of their noise in J, over the square of the guessed J,
#: is at most this. [tried]
TOTALS_NOISE = 0.15

# -- Count before the fit (theory 7)

#: Smallest share of the count of usable units. [tried]
LOOK_SHARE_MIN = 0.0005
#: Largest share of this count. A fit that continues then has at most .5 % more noise sd. [tried]
LOOK_SHARE_MAX = 0.01
#: Between these limits the share is this factor over (mu n)^2, which gives an sd of n/30. [tried]
LOOK_SHARE_FACTOR = 900.0
#: Share of the counts by variable. A stop costs at most 1.5 % of mu^2. [N 81]
BLAME_SHARE = 0.005
#: The call stops if the usable part of the rows is below this. [tried]
STOP_SHARE = 0.1
#: No count is released if STOP_SDS of its sds are more than this part of the rows. [tried]
LOOK_MAX_NOISE = 1.0 / 3.0
#: Number of variables whose presence is packed into one float, as bits. [tried]
VARIABLES_PER_ROW = 50

# -- Passes over units (method 8)

#: Shares of places, scales and passes in fits by person whose score is linear: three passes. [A 30]
LINEAR_UNITS = (0.04, 0.04, 0.09, 0.12, 0.71)
#: The same if the score is not linear: four passes. [N 47]
NONLINEAR_UNITS = (0.04, 0.04, 0.05, 0.07, 0.10, 0.70)
#: Factor of ``(mu_s N)^CLIP_POWER`` in the first clip C_0. [A 30]
CLIP_FACTOR_OF_UNITS = 0.30
#: Values of k: the clip is chosen among C_0 2^(k/4). [A 30]
CLIP_STEPS_OF_UNITS = range(-4, 13)
#: A person counts in full up to this information at least, over the mean. [N 83]
LEAST_INFORMATION_OF_PEOPLE = 1.5
#: And up to mu^2 N over this number, by which noise is small beside sampling error. [N 83]
WEIGHED_UP_TO = 150.0
#: Smallest R^2, over the trace for the information and over the mean square for the meat, if noise
#: allows it. [A 30]
MIN_RADIUS_OF_UNITS = 3.0
#: Factor of x/sqrt p if noise does not allow it. The noise is then .6 of the information. [N 51]
NARROW_FACTOR_OF_UNITS = 0.3
#: Largest score length of rare units, over the length that their share implies. [N 46]
RARE_LENGTH_OF_UNITS = 1.5
#: Quantiles of a number whose distance gives its spread. [tried]
OUTER_QUANTILES = (0.1, 0.9)
#: Distance of these quantiles for a normal number, in its sds. [exact]
OUTER_SDS = 2.563
#: It is enough if this part of the units is in clear cells. [tried]
CLEAR_PART = 0.7
#: Largest root mean square of a number, over its spread, if no cell holds half of the units.
#: [tried]
MAX_ROOT_MEAN_SQUARE = 1.5
#: Smallest spread of a number, in cells of its range. [tried]
MIN_SPREAD_CELLS = 0.3
#: Squares this number of octaves below the largest column of the information are left out. [N 45]
COLUMN_OCTAVES = 10


@dataclass(frozen=True)
class UnitShares:
    """Shares of mu^2 within a pass: the histogram of lengths, and the sums."""

    lengths: float
    information: float
    meat: float
    score: float
    scale: float = 0.0


#: Shares within the passes over units before the last. [tried]
EARLY = UnitShares(0.08, 0.30, 0.20, 0.42)
#: Shares within the last pass over units. [tried]
LAST = UnitShares(0.06, 0.15, 0.05, 0.74)

# -- Forecasts of a plan, from the public noise of an information


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
        prefix = f"forecast: noise is {noise:.0%} of the signal, so "
        low, high = f"{self.low_noise:.0%}", f"{self.high_noise:.0%}"
        if noise <= self.low_noise:
            return "fine", f"{prefix}intervals will be about as narrow as they can be (below {low})"
        if noise <= self.high_noise:
            return "rough", f"{prefix}intervals will be {self.between} (between {low} and {high})"
        return "not determined", f"{prefix}{self.beyond} (above {high})"


_NOT_DETERMINED = "coefficients will not be determined at this budget"
#: Fits by rows: limits of the spectral noise over the information of the declared box. [N 53]
OF_ROWS = Forecast(0.25, 0.5, "rough", "many coefficients will not be determined")
#: Noise of the information divides these errors by 1 minus this number times its square. [N 70]
FORECAST_STRETCH = 2.5
#: Root mean square of the log of row lengths that a forecast assumes. [N 74]
ROW_SPREAD = 0.31
#: A noisy fit overstates the share of rare events by this number over mu n. [N 74]
UNSURE_SHARE = 36.0
#: Root mean square of the bias by clipping over the allowance for it: linear models, other models.
#: [N 74]
BIAS_PART = (0.4, 0.2)
#: Printed errors over the errors of such rows, because real rows are less even: numbers, events.
#: [N 74]
FORECAST_EXCESS = (1.09, 1.2)
#: Largest spread of the log of residuals that a forecast assumes. [N 74]
MAX_SPREAD = 0.9
#: Number of histograms of score lengths that a forecast draws, for rows and for units. [N 74]
FORECAST_DRAWS = (32, 4)
#: Fits by person: limits of the noise of the released information over the information of the rows.
#: [N 59]
OF_UNITS = Forecast(BOUNDED_BEAR[0], 1.0, "wide", _NOT_DETERMINED)
#: The same for linear models. [N 59]
OF_LINEAR_UNITS = Forecast(BOUNDED_BEAR[0], UNITS_BEAR[1], "wide", _NOT_DETERMINED)
#: The same for quantiles and bounded losses. [N 59]
OF_BOUNDED_UNITS = Forecast(*BOUNDED_BEAR, "wide", _NOT_DETERMINED)
