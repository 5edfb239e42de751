"""Expected errors and allowance for bias of a planned fit, from public facts of the data.

A fit reads its scale, its clip and its allowance for bias off noisy sums, among them a histogram
of the lengths of scores. With a distribution of the lengths (:class:`ScoreLengths`) a plan draws
such histograms, and applies the rules of the fit to them. Reads no row and no release.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace

import numpy as np

from dpmodels.after.inference import BASE_BIAS, Allowance, one_way
from dpmodels.arrays import Array
from dpmodels.core.parallel import ROOT, Released
from dpmodels.lazy import special
from dpmodels.scoring import rules
from dpmodels.scoring.clip import UP_TO_SECOND, Lengths, chosen_clip, first_clip, missed_squares
from dpmodels.scoring.intervals import stretch
from dpmodels.scoring.models import State, Traits, scaled_up
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.taken import taken


@functools.cache
def _normal_grid(many: int = 200) -> Array:
    """Return equally likely values of a standard normal variable."""
    return np.asarray(special.ndtri((np.arange(many) + 0.5) / many))


def _beyond(x: Array, t: float, degrees: int = 1) -> Array:
    """Return P(chi exp(t g) > x), g standard normal, chi with these degrees, mean square 1."""
    scale = np.exp(t * _normal_grid() - t * t)
    return np.asarray(special.chdtrc(degrees, degrees * (x[..., None] / scale) ** 2).mean(axis=-1))


@functools.cache
def spread_of_tail(share: float, sds: float) -> float:
    """Return the t of residuals of which this share is longer than ``sds`` standard deviations."""
    grid = np.linspace(0.0, rules.MAX_SPREAD, 46)
    shares = np.array([float(_beyond(np.array([sds]), t)[0]) for t in grid])
    return float(np.interp(share, np.maximum.accumulate(shares), grid))


@dataclass(frozen=True)
class ScoreLengths:
    """Assumed distribution of the lengths of scores over their root mean square.

    A length is that of a row times a residual. Logarithms of row lengths are normal, and residuals
    are normal times ``exp(t g)``, g standard normal, or those of an event.
    """

    spread: float = 0.0  # t of the residuals, 0 if they are normal
    rows: float = 1.0  # Rows of a unit, whose scores are added
    rho: float = 0.0  # Correlation of the residuals of a unit
    events: float | None = None  # Share of rows with an event, or None for other responses

    def beyond(self, x: Array, r: int) -> Array:
        """Return the share of units whose score in r dimensions is longer than x."""
        x, t = np.maximum(x, 1e-12), rules.ROW_SPREAD
        if self.events is not None:
            shares, sizes = self._residuals_of_events(self.events)
            lengths = np.log(x[..., None] / np.maximum(sizes, 1e-12))
            return np.asarray(special.ndtr(-lengths / t - t) @ shares)
        rows = self.rows / (1.0 + (self.rows - 1.0) * self.rho)  # As good as independent
        return _beyond(x, math.hypot(t, self.spread) / math.sqrt(rows), min(max(round(rows), 1), r))

    def _residuals_of_events(self, m: float) -> tuple[Array, Array]:
        """Return shares and sizes of a unit's residuals: its events are beta-binomial."""
        from scipy.stats import betabinom, binom

        rows, odds = max(round(self.rows), 1), (1.0 - self.rho) / max(self.rho, 1e-9)
        law = betabinom(rows, m * odds, (1.0 - m) * odds) if self.rho > 0.0 else binom(rows, m)
        events, square = np.arange(rows + 1), rows * m * (1.0 - m) * (1.0 + (rows - 1) * self.rho)
        return law.pmf(events), np.abs(events - rows * m) / math.sqrt(square)

    def counts(self, edges: Array, n: float, r: int) -> Array:
        """Return expected counts of a histogram with an open first and last bin."""
        beyond = self.beyond(edges, r)
        beyond[0], beyond[-1] = 1.0, 0.0
        return np.asarray(n * (beyond[:-1] - beyond[1:]))


@functools.cache
def _learnt_scale(lengths: ScoreLengths, r: int) -> float:
    """Return the scale that passes learn over the root mean square: they cut long scores."""
    square = 1.0
    for _ in range(30):
        x = np.linspace(0.0, math.sqrt(rules.SCALE_CUT * square), 200)
        y = 2.0 * x * lengths.beyond(x, r)
        cut = float(np.sum((y[1:] + y[:-1]) * np.diff(x))) / 2.0
        square = scaled_up(1.0, cut)
    return math.sqrt(square)


@dataclass(frozen=True, eq=False)
class Expectation:
    """Expected inference of a coefficient. Printed numbers are (k,) equally likely draws."""

    sampling: float = 1.0  # Factor of the sampling error
    privacy: float = 1.0  # Privacy error, in coordinates whitened by the state of a plan
    # Printed variances over actual ones
    printed_sampling: Array = field(default_factory=lambda: np.ones(1))
    printed_privacy: Array = field(default_factory=lambda: np.ones(1))
    # Allowance for bias over the privacy error
    bias: Array = field(default_factory=lambda: np.zeros(1))
    part: float = 0.0  # Bias by clipping over the allowance for it, root mean square


@functools.lru_cache(maxsize=1024)
def of_rows(
    passes: tuple[PassPlan, ...], score: Traits, lengths: ScoreLengths, most: tuple[float, float]
) -> Expectation:
    """Return the expectation of a fit by passes over rows; ``most``: largest |v| and |s|."""
    last, r, n = passes[-1], passes[-1].p, passes[-1].rows
    m, typical = lengths.events, score.jump * math.sqrt(r)
    if score.can_be_rare and m is not None:
        share = min(m, 1.0 - m) + rules.UNSURE_SHARE / last.strength
        typical = math.sqrt(r * max(1.0 / share - 1.0, 1.0))
    last = last.suited(typical, score, last, most)
    scale = 1.0 if score.bounded or score.is_event else _learnt_scale(lengths, r)
    octaves = (np.arange(rules.BINS + 1) - rules.AT_CLIP) / 2.0
    edges = last.clip / math.sqrt(r) * scale * 2.0**octaves
    counts = lengths.counts(edges, n, r)
    # part of the signs of cut rows that do not cancel: more in a long tail of residuals
    uneven = 0.5 if score.averages and lengths.spread else 0.25
    rng = np.random.default_rng(0)

    def drawn_pass(bins: Array) -> Released:
        of_noise = None
        if last.two_clips:
            sd = last.noise.score / (ROOT * last.clip)
            of_noise = sd * rng.normal(size=(last.blocks - 1, r))
            of_noise[0] += uneven / math.sqrt(r) * float(counts @ UP_TO_SECOND)
        return Released(np.eye(r), np.zeros(r), bins=bins, taken=of_noise)

    draws = _draws(counts, last.noise.count, rules.FORECAST_DRAWS[0], rng)
    unit = (last.clip * scale) ** 2 / r
    squares = missed_squares(drawn_pass(counts), last)
    sd = last.noise.score / n
    eye = np.eye(r)
    state = State(eye[-1], eye, 1.0, eye, constant=eye[0])
    # mean square of the noise of the information, by whose second order intervals lower it
    noisy = (last.noise.information / n) ** 2 / 2.0 * (r + 1.0)
    lowered = 1.0 - min(noisy, 0.5)
    table = []
    for released in map(drawn_pass, draws):
        missed, two = missed_squares(released, last), taken(released, last, state, eye, eye)
        rule, added = Allowance(eye / lowered, eye, BASE_BIAS * sd), 1.0  # to the variance of noise
        if two is not None:
            rule = replace(rule, **two.over(n)[1])
            added += (two.sd / last.noise.score) ** 2
        square = max(1.0 + unit * (missed - squares), 0.5)
        table.append((added, square, float(rule.bias(eye[:1])[0]) / sd))
    added, square, bias = np.array(table).T
    privacy = math.sqrt(added.mean())
    far = last.noise.information / n * math.sqrt(2.0 * r)
    far = stretch(far, rules.ROWS_BEAR, rules.STRETCH_MAX)
    far *= rules.FORECAST_EXCESS[1 if score.is_event else 0] / lowered
    actual = privacy * scale * sd
    if not score.averages:  # their information is of one pass, and its inverse is larger: 1 + 3 E^2
        early = passes[-2:][0]
        last_step = math.sqrt(r * (sd**2 + (early.noise.score / early.rows) ** 2))
        crossed = 2.0 * score.jump * last_step / n  # rows between the last two fits
        actual *= math.sqrt(1.0 + 3.0 * noisy + crossed / sd**2)
    return Expectation(
        1.0, actual, far**2 * square,
        (far / privacy) ** 2 * added, bias / privacy, rules.BIAS_PART[0 if score.averages else 1],
    )  # fmt: skip


@functools.lru_cache(maxsize=1024)
def of_units(
    mu_score: float, sds: tuple[float, float], N: int, r: int, noise: float,
    lengths: ScoreLengths, *, stops: bool,
) -> Expectation:  # fmt: skip
    """Return the expectation of a fit by passes over N units.

    Parameters
    ----------
    mu_score : float
        mu of the last scores.
    sds : (float, float)
        Noise sds of a score per unit of C, and of a bin of the histogram of lengths.
    noise : float
        Forecast of the noise of the information over its size.
    stops : bool
        Whether follow-up stops before a score is longer than C, which is then C_0.
    """
    per_clip, sd = sds
    edges = 2.0 ** ((np.arange(rules.OCTAVES + 1) - rules.OCTAVE_ZERO) / 2.0) / math.sqrt(r)
    first, clips, bias = first_clip(r, mu_score, N, r), [], []
    rng = np.random.default_rng(0)
    for counts in _draws(lengths.counts(edges, N, r), sd, rules.FORECAST_DRAWS[1], rng):
        released = Lengths(counts, sd)
        clip = first if stops else chosen_clip(released, mu_score, N, r)
        total = 0.0 if stops else released.overflow(clip)
        clips.append(clip)
        bias.append(max(BASE_BIAS, one_way(r) * total / (per_clip * clip)))
    sampling = 1.0 / max(1.0 - rules.FORECAST_STRETCH * noise**2, 0.25)  # by the noisy information
    privacy = float(np.median(clips)) * per_clip / N * sampling
    printed = np.exp(2.0 * rules.FORECAST_STRETCH * noise**2 * _normal_grid(len(bias)))
    return Expectation(sampling, privacy, printed, printed, np.array(bias), rules.BIAS_PART[1])


def _draws(counts: Array, sd: float, many: int, rng: np.random.Generator) -> Array:
    """Return histograms (many, bins) with the noise of a release."""
    return np.asarray(counts + sd * rng.normal(size=(many, len(counts))))

