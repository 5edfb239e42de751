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

# -- Kinds of models over rows, chosen by public numbers

#: From this number of columns on a model of a residual has many. [N 3]
COLUMNS = 6
#: ``p^1.5/(mu n)`` from which on many columns need the shares for noisy passes. [N 7]
WIDE_NOISE = 0.008
#: From this number of columns on a model of a mean has many. [tried]
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
    #: Least C over sqrt p. A shorter clip has less noise and more bias. [N 7]
    clip: float = 1.5
    #: Least R_L^2 over p: up to there rows count as ordinary. [A 6]
    ordinary: float = 2.0
    far: bool = False  # Whether the directions of scores beyond C are released if mu n is large

    @property
    def damps(self) -> bool:
        """Whether a last step loses a part of what noise explains.

        So do least squares, which are the models with ``far``, and models that shrink.
        """
        return self.far or self.shrinks


#: Scores with a bound (quantiles, Huber), with few columns. [A 19]
TAME = ClipPolicy()
#: Least squares with few columns. [A 1]
LEAST_SQUARES = ClipPolicy(far=True)
#: Least squares with many columns. [N 6]
WIDE_LEAST_SQUARES = ClipPolicy(
    by_leverage=True, shrinks=True, signed=True, narrow=True, clip=1.0, ordinary=1.5, far=True
)
#: Models of a mean with few columns. [A 18]
FEW = ClipPolicy(by_leverage=True)
#: Models of a mean, and scores with a bound, with many columns. [N 8]
MANY = ClipPolicy(by_leverage=True, shrinks=True)
#: Units: H is shrunk towards the coordinates it is looked at in, made round by the pass before.
#: [N 51]
UNITS_POLICY = ClipPolicy(shrinks=True)


# -- Shares of the passes over rows

#: Share of the scale within an early pass. [tried]
SCALE_SHARE = 0.04


@dataclass(frozen=True)
class PassShares:
    """Shares of mu^2 of one family of models, over the passes and within a pass."""

    passes: tuple[float, ...]  # Share of the start and of every scoring pass
    #: Information, within a pass that is not the last. [tried]
    information: float = 0.30
    #: Scores, within a pass that is not the last: they decide the step. [tried]
    score: float = 0.66
    scale: float = SCALE_SHARE
    #: Ordinary information, within the last pass. The four others divide the remainder. [tried]
    ordinary: float = 0.05
    #: Information, within the last pass. [tried]
    last_information: float = 0.18
    #: Scores, within the last pass. [tried]
    last_score: float = 0.68
    #: Meat, within the last pass: it enters the interval only. [tried]
    meat: float = 0.07
    #: Histogram of lengths, within the last pass. [tried]
    histogram: float = 0.07


#: Start and two passes: more converge to the biased clipped equation. [N 11]
LINEAR = PassShares((0.15, 0.20, 0.65))
#: After a start of another kind, which is noisier: two passes more, with a little each. [N 72]
OPENED = PassShares((0.15, 0.05, 0.07, 0.13, 0.6))
#: Models of a residual with many columns and little noise: two steps show whether a fit moves.
#: [A 20]
STRONG_COLUMNS = (0.15, 0.07, 0.13, 0.65)
#: Models of a residual with many columns: the noise of the early passes decides. [N 7]
MANY_COLUMNS = (0.18, 0.06, 0.09, 0.15, 0.52)
#: Models of a mean (events, counts). [A 21]
MEANS = PassShares((0.12, 0.08, 0.10, 0.15, 0.55))
#: Models with a bounded score: their density gives the scale, so none is released. [A 21]
BOUNDED = PassShares((0.15, 0.12, 0.15, 0.58), information=0.33, score=0.67, scale=0.0)
#: Share of the reserve that an extra pass takes (method 3.2). [N 19]
EXTRA_PASS_SHARE = 0.18
#: Least share of the last pass after extra passes. [A 8]
MIN_LAST_PASS_SHARE = 0.2
#: Passes before the last, at most. [A 8]
MAX_EARLY_PASSES = 6
#: Name of the step that pays for the last pass and extra ones. [name]
RESERVE = "passes from the reserve"
#: Share of the directions of scores beyond C in the last pass. [N 23]
FAR_SHARE = 0.15
#: mu n from which on these are released: below, noise hides them. [N 23]
FAR_FROM = 8000.0
#: Share of fit statistics, if asked for. [tried]
STATISTICS_SHARE = 0.10
#: Name of their step. [name]
STATISTICS_STEP = "fit statistics"

# -- Clips and radii of a pass over rows

#: Factor of ``(mu_s n)^CLIP_POWER`` in C. A bias of order C^-a makes a power of mu n optimal.
#: [N 73]
CLIP_FACTOR = 0.36
#: Power of mu n in every clip of scores. [tried]
CLIP_POWER = 0.45
#: Typical long scores beyond this part of C are a hump: C then follows their length. [A 34]
HUMP_PART = 0.65
#: Largest factor of a row in a score, over C: rows shorter than 1/4 are clipped earlier. [P 2.1]
ROW_FACTOR_MAX = 4.0
#: Least R^2 over p of information and meat. [tried]
MIN_RADIUS = 4.0
#: Factor of x^.7 in R_H^2 over p, x = mu n/p of that sum: clipping leaves a step undone. [N 9]
INFORMATION_FACTOR = 0.22
#: Power of x in R_H^2 over p. [tried]
INFORMATION_POWER = 0.7
#: Least R_H^2 over p where the radius follows its noise. [N 6]
MIN_NARROW_RADIUS = 1.75
#: Factor of x/sqrt p there: spectral noise of the information stays near a quarter. [N 2]
NARROW_FACTOR = 0.12
#: Factor of sqrt x in R_J^2 over p. [tried]
MEAT_FACTOR = 0.8
#: Largest squared score in the scale, over p. [tried]
SCALE_CUT = 6.0
#: The same for rows with weights, whose scores have long tails. [N 15]
SCALE_CUT_OF_WEIGHTS = 36.0
#: And at least the square of this times C. [N 16]
SCALE_CUT_OVER_CLIP = 1.5
#: Share of an early pass for the scale of rows with weights. [N 16]
SCALE_SHARE_OF_WEIGHTS = 0.10
#: Noise of their meat over its size, up to which its radius grows to C. [N 16]
MEAT_NOISE = 0.10
#: C over that of the rule, at least, where residuals are bounded and events not rare. [A 35]
MIN_CLIP_OF_BOUNDED = 0.8
#: Noise sds above zero from which on a released count of rows replaces its guess (n private).
#: [tried]
SEEN_COUNT = 4.0

# -- Bins

#: Name of the histogram of cells of numbers. [name]
PLACES = "places of values"
#: Name of the histogram of their distances. [name]
DISTANCES = "scales of values"
#: Cells of a range. [tried]
CELLS = 64
#: Octaves of a square (half octaves of a length). [size]
OCTAVES = 96
#: Bin i of octaves holds [2^(i - OCTAVE_ZERO), twice that). [size]
OCTAVE_ZERO = 64
#: Half octaves of distances from a centre. [size]
DISTANCE_OCTAVES = 24
#: Bins of ``|s|/C``: half octaves, end bins open. [size]
BINS = 14
#: The bin that begins at C. [size]
AT_CLIP = 9
#: Bits of the mantissa of a float64. [exact]
MANTISSA_BITS = 52
#: Bias of the exponent of a float64. [exact]
EXPONENT_BIAS = 1023
#: Scores of a unit's rows are rounded to this before they are summed as integers. [P 8.1]
GRAIN = 2.0**-34

# -- Coordinates, centre and scale (method 1, 3.1)

#: Unit of the response of a start: a uniform one in [-1, 1] has unit variance. [exact]
RESPONSE_UNIT = math.sqrt(3.0)
#: Points of the declared box: at least, per column, at most. [tried]
BOX_POINTS = (1 << 12, 64, 1 << 15)
#: Eigenvalues below this part of the largest are aliased columns. [tried]
ALIASED_PART = 1e-10
#: Coefficients with this part of their squared length in aliased directions are not identified.
#: [tried]
UNIDENTIFIED_PART = 1e-6
#: Least whitened eigenvalue over the largest, in a narrowed box. [tried]
MIN_NARROWED_EIGENVALUE = 1e-4
#: Columns with this part of their square beyond the columns before them are combinations. [tried]
DEPENDENT_PART = 1e-8
#: Shares of the two histograms of numbers. [tried]
NUMBER_SHARES = (0.02, 0.03)
#: Least part of the distances in the tail that determines a scale. [tried]
TAIL_PART = 0.1
#: Noise sds from which on a count is visible. [tried]
VISIBLE_SDS = 2.0
#: Least noise sds of a tail if a sample of the rows is read. [tried]
CLEAR_TAIL_SDS = 100.0
#: A tail of more than this part of the rows tells no scale. [tried]
MAX_TAIL_PART = 0.7
#: More than this part of the distances in one half octave: few values, no normal tail. [N 17]
ONE_LENGTH_PART = 0.5
#: Half the range of a response over its scale, at least. [tried]
RESPONSE_SCALES = 3.0
#: Noise of a start over the scale of the response that a wider range may bring. [A 24]
START_NOISE_OF_RANGE = 0.5
#: Part of the range's variance in the squared scale of a predictor. [A 28]
RANGE_VARIANCE_PART = 0.004
#: Name of the release of the mean weight. [name]
WEIGHT_STEP = "weights"
#: Its share. [tried]
WEIGHT_SHARE = 0.02
#: Half octaves of w/W. The last holds everything below, and rows without a positive weight. [size]
WEIGHT_BINS = 32

# -- Start (method 3)

#: Smallest eigenvalue of the start, in public coordinates (a range 1000 times too wide: 1e-6).
#: [tried]
START_FLOOR = 1e-7
#: Bias of an entry of the second moments from the ball of a start, in whitened coordinates. [A 11]
START_BIAS = 0.2
#: Noise sds up to which a part of the start's fit counts as noise. [N 12]
START_NOISE_SDS = 2.0
#: Relative distance of eigenvalues below which they are one. [tried]
EQUAL_EIGENVALUES = 1e-9
#: Largest radius^2 of a start from measured scales, over p + 1, where mu n is small. [A 13]
START_RADIUS_MAX = 2.0
#: The same where mu n is large. [A 13]
START_RADIUS_MAX_STRONG = 4.0
#: mu n from which on it is. [A 13]
START_STRONG = 2_000.0
#: Link units between the mean row and public rows in a start of events or counts. [N 14]
REACH_OF_START = 4.0
#: Least part of a row that the ball of the start is taken to leave on average. [tried]
MIN_BALL_MASS = 0.1
#: Bounds of the mean of an event in a start. [N 35]
EVENT_MEAN = (0.01, 0.99)
#: Least share of the rarer outcome by a released mean. [N 35]
MIN_EVENT_SHARE = 1e-3
#: Bounds of alpha of the negative binomial. [tried]
ALPHA = (1e-3, 20.0)

# -- Newton step (method 3)

#: Floor of eigenvalues of the information, over its spectral noise nu sqrt(2r). [tried]
FLOOR_NOISE = 0.7
#: Least floor, of people over the mean eigenvalue. [N 6]
FLOOR = 0.05
#: Least part of the noise variance that remains after shrinkage. [A 25]
MIN_NOISE_LEFT = 0.05
#: Part of its explained noise that a last step loses. [N 5]
DAMPING = 0.5
#: Longest early step: of a model of a residual, in its sds. [tried]
MAX_EARLY_STEP = 1.4
#: Longest early step of a mean with another link than the logit, and of a quantile. [tried]
MAX_EARLY_STEP_SHORT = 0.7
#: Longest early step of a logit. [tried]
MAX_EARLY_STEP_LOGIT = 1.0
#: phi grows by this factor times the mean squared score over its expectation. [A 31]
SCALE_UPDATE = 1.1
#: Bounds of the factor of phi in one pass. [tried]
SCALE_UPDATE_RANGE = (0.05, 5.0)
#: Squared step over its explained noise, from which on the step is more than noise. [N 18]
STEP_OVER_NOISE = 3.0
#: A step moves a mean fit on from this change of a public row's linear predictor. [N 38]
MOVED_LINK = 0.3
#: And from this number of its noise sds. [tried]
MOVED_SDS = 3.0
#: Local scale of a quantile fit over its asymptotic sd: 1 at the median of normal errors. [exact]
QUANTILE_SCALE = 1.25
#: Kernel width over the local scale. [tried]
KERNEL_WIDTH = 0.35

# -- Excess over the clip (method 4)

#: (slopes, bends) of log counts over half octaves, as ``np.linspace`` takes them: falling tails.
#: [tried]
FALLING_TAILS = ((-1.6, 0.7, 47), (0.0, 0.6, 13))
#: The same where most long scores have one length: counts rise to it and fall quickly. [A 26]
ONE_LENGTH_TAILS = ((-1.6, 3.0, 47), (0.2, 2.0, 13))
#: The same where C may lie in the bulk: counts of normal scores fall ever faster. [tried]
BULK_TAILS = ((-1.6, 3.0, 47), (0.0, 2.0, 21))
#: Errors above the curve from which on a bin counts in full. [A 16]
TAIL_BIN_SDS = 2.5
#: The same for people, whose half octaves are many and extend far. [N 48]
TAIL_BIN_SDS_OF_PEOPLE = 4.0
#: With weights: errors of a count by which rows may hide beyond C. [N 16]
UNSEEN_TAIL_SDS = 1.1
#: At most this part of the rows within two octaves below C. [N 16]
UNSEEN_TAIL_PART = 0.12
#: Part of the excess that is even in sign but counts as of one sign. [N 26]
EVEN_PART = 0.75
#: mu n up to which it does; above, in proportion to 1/(mu n). [N 26]
EVEN_STRONG = 400.0
#: Part of C that a row just beyond it may have moved the sum by. [A 15]
MOVED_PART = 0.35
#: Bounds of the ratio of neighbouring bins. [A 15]
NEIGHBOUR_RATIOS = (0.1, 0.7)
#: Chance that noise looks like scores beyond C, in all directions together. [N 23]
FAR_CHANCE = 0.01
#: The same of any group. [N 24]
GROUP_CHANCE = 0.1
#: Bounds of the mean excess of a clipped score, in units of C. [tried]
MEAN_EXCESS = (0.25, 2.0)
#: Noise sds of a group's long scores that do not count. [N 24]
GROUP_NOISE_SDS = 2.0
#: Excess of the rest, in units of C. [tried]
GROUP_EXCESS = 0.5
#: Runs of three bins above this number of noise sds are clear. [tried]
CLEAR_SDS = 9.0
#: And those next to clear ones above this. [tried]
NEAR_CLEAR_SDS = 4.0
#: Bins that hold most units, where noise hides which. [A 30]
HIDDEN_BINS = 7
#: Quantile up to which squares are averaged. [tried]
SCORE_QUANTILE = 0.995

# -- Intervals and marks (method 4)

#: Ratio of released noise to information from which errors of rows grow, and its end. [N 54]
ROWS_BEAR = (4.0, 8.0)
#: The same of people. [N 54]
UNITS_BEAR = (0.6, 1.2)
#: The same of quantiles and bounded losses of people. [N 54]
BOUNDED_BEAR = (0.35, 0.4)
#: Largest factor of an error, of rows. [tried]
STRETCH_MAX = 100.0
#: The same of people. [N 54]
STRETCH_MAX_OF_PEOPLE = 4.0
#: Value of an eigenvalue below the floor, over the floor, if H was not shrunk. [A 23]
UNRESOLVED_VALUE = 0.1
#: Its least value if H was shrunk. [A 23]
UNRESOLVED_VALUE_SHRUNK = 0.2
#: Factor of the unexplained part of a step in the allowance of models that shrink. [A 14]
UNEXPLAINED_STEP = 2.0
#: Public noise of the information above which no coefficient of such a model is tested. [A 29]
SIGNAL_IS_NOISE = 3.0
#: Noise sds of the ordinary information that naming a coefficient leaves to it. [tried]
NAMED_SDS = 2.0
#: A coefficient with this part of its variance in unresolved directions is not determined. [tried]
UNRESOLVED_PART = 0.5
#: Information along a coefficient below which it is not determined, if H was shrunk. [A 29]
MIN_INFORMATION = 0.3
#: The same in noise sds. [A 29]
MIN_INFORMATION_SDS = 4.0
#: Factor c of l_j in the allowance: least squares and expectiles. [tried]
LEVERAGE_BIAS = 4.0
#: The same: families, Huber, units. Quantiles have 0. [tried]
LEVERAGE_BIAS_LOW = 1.0
#: Residual variance of the start over that of the last scores: responses may be clipped. [N 22]
START_SPREAD = 12.0
#: Part of it that the start must have seen. [N 21]
START_SPREAD_SEEN = 3.0
#: The same limit for units, by the released distribution of the response. [N 56]
RESPONSE_SPREAD_OF_UNITS = 25.0
#: Sampling errors over those by the residual variance of the start, at least. [N 22]
MIN_ERROR_PART = 0.9
#: Part of its half width by which clipped scores of a group may move a coefficient. [N 24]
GROUP_MOVE = 0.5
#: Noise sds of a last step over units beyond which it has not converged. [N 55]
UNCONVERGED_SDS = 5.0
#: Effect of separated events over its half width, at least. [tried]
SEPARATED_EFFECT = 0.5
#: Logits per unit of a link, about its middle. [tried]
LOGITS = {"probit": 1.7, "cloglog": 1.3}
#: Least share of empty rows that is noted. [tried]
EMPTY_SHARE = 0.05
#: And its noise sds. [tried]
EMPTY_SDS = 3.0
#: Public rows per set of variables. [tried]
MAX_PUBLIC_ROWS = 400
#: Ranges of the response that an effect over the range of its variables may be. [tried]
MAX_EFFECT_RANGES = 3.0
#: Half width over the effect, up to which an effect is known. [tried]
KNOWN_EFFECT = 0.5
#: Uncertainty of an odds, rate or hazard ratio beyond which it is not useful. [tried]
MAX_RATIO = 100.0
#: Sd of a linear predictor, in logits, beyond which events are taken to be separated. [tried]
SEPARATED_LOGITS = 5.0
#: Part of it from which on a column belongs to that. [tried]
SEPARATED_PART = 0.25
#: The same limit of a fit that has not converged. [tried]
SEPARATED_UNCONVERGED = 4.0
#: The same of people, whose steps are shorter. [tried]
SEPARATED_UNCONVERGED_OF_PEOPLE = 3.0
#: Ends of a number in public rows, in released sds from its released centre. [tried]
PUBLIC_END_SDS = 3.0

# -- Rare events and counts (method 5.9)

#: Counts with a mean below are rare. [tried]
RARE_MEAN = 1.0
#: C over the length of typical scores of rare events, counts and second values. [N 34]
RARE_CLIP = 1.75
#: C over the length of the scores of a quantile's rarer side. [N 60]
QUANTILE_CLIP = 1.5
#: Least expected events (or counts) of a level that is tested. [N 38]
MIN_EVENTS = 25.0
#: Less this number of their noise sds. [N 38]
MIN_EVENTS_SDS = 0.5
#: Part of the change of the information along a step that is a second-order error. [N 40]
CURVATURE_PART = 0.5
#: Mean of a row after a step over that before, at least. [N 36]
MIN_MEAN_LEFT = 0.05
#: Least log of the information at the end of a last step over that at its start. [tried]
MIN_LOG_INFORMATION = -1.5

# -- Fit statistics (method 5.7)

#: A unit deviance counts up to this number of dispersions. [tried]
MAX_DEVIANCE = 12.0
#: Weight of the count of complete rows: the largest at which it is free. [P 5.7]
COUNT_WEIGHT = 1.5
#: Points at which a convex function is tabulated. [tried]
DEVIANCE_POINTS = 4097
#: Amounts are resolved down to this part of the end of their range. [tried]
MIN_AMOUNT_PART = 2.0**-30

# -- Structure (method 3.4)

#: Multiplications of a projection, at most: beyond, nothing is projected. [tried]
MAX_PROJECTION_WORK = 2e9
#: Spectral norm of noise after a projection, over the root of its mean square. [N 57]
PROJECTED_NORM = 1.15

# -- Samples of a large table (models/linear/theory.md 3.2)

#: An early pass reads one run of rows in k up to a noise ratio of this over k. [tried]
PILOT_NOISE = 1e-3
#: The same of a start, whose noise decides which directions are seen at all. [N 1]
FIRST_NOISE = 1e-4
#: Largest k by windows: in general, and where columns may be local. [tried]
PILOT_EVERY = (32, 4)
#: Largest k by coins: beyond it coins cost more than rows. [tried]
PILOT_COINS = 8
#: Least number of places of the table that are read, in general and locally. [tried]
PILOT_PLACES = (8, 16)
#: Windows between two places, at most (2^21 rows). [tried]
PILOT_PERIOD = 256

# -- Errors by cluster (method 6)

#: Share of the products of sums. [tried]
CLUSTER_SHARE = 0.10
#: The same where coordinates are shrunk to their average. [N 52]
CLUSTER_SHARE_AVERAGED = 0.20
#: Share of the number of clusters, where it is released. [tried]
CLUSTER_COUNT_SHARE = 0.01
#: Least C of a row's score over sqrt p. [tried]
MIN_CLUSTER_CLIP = 2.5
#: Factor of ``(mu n)^CLIP_POWER`` in that C. [tried]
CLUSTER_CLIP_FACTOR = 0.12
#: Noise of J over its guessed size that the upper radius brings. [tried]
CLUSTER_NOISE = 0.25
#: The same of people, fewer than rows: clipped sums covered .87 of intercepts. [N 43]
CLUSTER_NOISE_OF_PEOPLE = 0.5
#: Allowed noise of averaged coordinates over that of others, times p^(1/4). [N 52]
CLUSTER_NOISE_AVERAGED = 1.1
#: That factor at most. [tried]
CLUSTER_NOISE_AVERAGED_MAX = 1.6
#: Guessed noise of J over its size beyond which a plan warns. [tried]
CLUSTER_NOISE_HIGH = 0.5
#: Released noise of J over its size beyond which errors are bounds from above. [N 42]
CLUSTER_NOISE_MAX = 1.0
#: Guessed noise of J up to which units are compared in pairs. [tried]
PAIRS_NOISE = 0.35
#: Least credible design effect, relative to the released meat of rows. [N 42]
MIN_DESIGN_EFFECT = 0.7
#: Noise sds of the sum of design effects if J does not exceed its noise. [N 42]
DESIGN_EFFECT_SDS = 2.0
#: A released number of clusters is refused below this. [tried]
MIN_RELEASED_CLUSTERS = 60
#: And below this multiple of its error. [tried]
SEEN_CLUSTERS = 2.0
#: Share of stratum totals. [tried]
TOTALS_SHARE = 0.02
#: Their noise in J over its guessed size, up to which they are used. [tried]
TOTALS_NOISE = 0.15
#: Labels that wait before they are put together. [tried]
WAITING_LABELS = 1 << 18
#: Columns of integers of at most 2^20 whose products sum to 2^53 at most. [exact]
EXACT_COLUMNS = 1 << 13
#: A score longer than this, in grains, voids its person. [tried]
MAX_SCORE_GRAINS = 1e140
#: Pays for the rounding of summed lengths, of a quotient and of a product. [exact]
ROUNDED_DOWN = 1.0 - 2.0**-30

# -- Count before the fit (theory 7)

#: Least share of the count of usable units. [tried]
LOOK_SHARE_MIN = 0.0005
#: Its largest share: a fit that goes on pays at most .5 % more noise sd. [tried]
LOOK_SHARE_MAX = 0.01
#: Factor over (mu n)^2 between them: an sd of n/30. [tried]
LOOK_SHARE_FACTOR = 900.0
#: Least share of the counts by variable. [tried]
BLAME_SHARE_MIN = 0.005
#: Their largest share: a stop costs at most 3 % of mu^2. [tried]
BLAME_SHARE_MAX = 0.02
#: Factor over (mu n)^2 between them, times the number of variables: an sd of n/6. [tried]
BLAME_SHARE_FACTOR = 36.0
#: The call stops below this share of the rows. [tried]
STOP_SHARE = 0.1
#: And below this number of sds: 0 usable rows go on with probability .001. [tried]
STOP_SDS = 3.0
#: No count is released if STOP_SDS of it are more than this part of the rows. [tried]
LOOK_MAX_NOISE = 1.0 / 3.0
#: Variables whose presence one float holds, as bits. [tried]
VARIABLES_PER_ROW = 50

# -- Passes over units (method 8)

#: Places, scales and passes: three passes where a score is linear. [A 30]
LINEAR_UNITS = (0.04, 0.04, 0.09, 0.12, 0.71)
#: Four passes otherwise. [N 47]
NONLINEAR_UNITS = (0.04, 0.04, 0.05, 0.07, 0.10, 0.70)
#: Factor of ``(mu_s N)^CLIP_POWER`` in the first clip C_0. [A 30]
CLIP_FACTOR_OF_UNITS = 0.30
#: C is looked for at C_0 2^(k/4). [A 30]
CLIP_STEPS_OF_UNITS = range(-4, 13)
#: Least R^2 of information over its trace, and of meat over the mean square, if noise allows.
#: [A 30]
MIN_RADIUS_OF_UNITS = 3.0
#: Factor of x/sqrt p if not: noise of .6 of the information. [N 51]
NARROW_FACTOR_OF_UNITS = 0.3
#: Part of a step's length by which it is damped: exponential models overshoot from below. [A 30]
DAMPING_OF_UNITS = 0.5
#: Longest early step, in spreads of the response, or as it is. [tried]
MAX_EARLY_STEP_OF_UNITS = 2.0
#: Length of the scores of rare units over what their share suggests, at most. [N 46]
RARE_LENGTH_OF_UNITS = 1.5
#: Quantiles of a number that give its spread. [tried]
OUTER_QUANTILES = (0.1, 0.9)
#: Their distance in normal sds. [exact]
OUTER_SDS = 2.563
#: Part of the units in clear cells that is enough. [tried]
CLEAR_PART = 0.7
#: Root mean square of a number over its spread, at most, if no cell holds half of the units.
#: [tried]
MAX_ROOT_MEAN_SQUARE = 1.5
#: Least spread of a number, in cells of its range. [tried]
MIN_SPREAD_CELLS = 0.3
#: Octaves below the largest column of the information beyond which nothing is a column's. [N 45]
COLUMN_OCTAVES = 10


@dataclass(frozen=True)
class UnitShares:
    """Shares of mu^2 within a pass: the histogram of lengths, and the sums."""

    lengths: float
    information: float
    meat: float
    score: float
    ordinary: float = 0.0
    scale: float = 0.0


#: Passes over units before the last. [tried]
EARLY = UnitShares(0.08, 0.30, 0.20, 0.42)
#: The last. [tried]
LAST = UnitShares(0.06, 0.10, 0.05, 0.76, 0.03)
#: The last with many columns for the budget. [N 51]
LAST_OF_COLUMNS = UnitShares(0.06, 0.15, 0.05, 0.71, 0.03)

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
#: Rows: spectral noise over the information of the declared box. [N 53]
OF_ROWS = Forecast(0.25, 0.5, "rough", "many coefficients will not be determined")
#: Clip of a plan's expected errors of units, over C_0: as released lengths choose it. [N 70]
FORECAST_CLIP = 0.85
#: A noisy information divides these errors by 1 less this times the square of its noise. [N 70]
FORECAST_STRETCH = 2.5
#: Root mean square of the logarithm of a row's length, assumed of columns by a forecast. [N 74]
ROW_SPREAD = 0.31
#: Part of the information of such rows that is beyond R_L. [N 74]
LEVERAGE_PART = 0.06
#: A noisy fit overstates the share of rare events by this over mu n. [N 74]
UNSURE_SHARE = 36.0
#: Bias by clipping over the allowance for it, root mean square: linear models, others. [N 74]
BIAS_PART = (0.4, 0.2)
#: Printed errors over those of such rows, as real ones are less even: numbers, events. [N 74]
FORECAST_EXCESS = (1.09, 1.2)
#: Largest spread of the logarithm of residuals that a forecast assumes. [N 74]
MAX_SPREAD = 0.9
#: Histograms of score lengths that a forecast draws, of rows and of units. [N 74]
FORECAST_DRAWS = (32, 4)
#: Units: noise of the released information over the information of the rows. [N 59]
OF_UNITS = Forecast(BOUNDED_BEAR[0], 1.0, "wide", _NOT_DETERMINED)
#: Linear models of units. [N 59]
OF_LINEAR_UNITS = Forecast(BOUNDED_BEAR[0], UNITS_BEAR[1], "wide", _NOT_DETERMINED)
#: Quantiles and bounded losses of units. [N 59]
OF_BOUNDED_UNITS = Forecast(*BOUNDED_BEAR, "wide", _NOT_DETERMINED)
