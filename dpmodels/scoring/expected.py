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

from dpmodels.after.inference import Allowance, Tail
from dpmodels.arrays import Array
from dpmodels.core.parallel import ROOT, Released
from dpmodels.scoring import rules
from dpmodels.scoring.clip import UP_TO_SECOND, Lengths, chosen_clip, first_clip, missed_squares
from dpmodels.scoring.intervals import stretch
from dpmodels.scoring.models import State, Traits, floored, roots, scaled_up
from dpmodels.scoring.pass_plan import PassPlan
from dpmodels.scoring.taken import noise_if_nothing_is_cut, taken


@functools.cache
def _normal_grid(many: int = 200) -> Array:
    """Return equally likely values of a standard normal variable."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(many) + 0.5) / many))


def _beyond(x: Array, t: float, degrees: int = 1) -> Array:
    """Return P(chi exp(t g) > x), g standard normal, chi with these degrees, mean square 1."""
    from scipy.special import chdtrc

    scale = np.exp(t * _normal_grid() - t * t)
    return np.asarray(chdtrc(degrees, degrees * (x[..., None] / scale) ** 2).mean(axis=-1))


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
        from scipy.special import ndtr

        x, t = np.maximum(x, 1e-12), rules.ROW_SPREAD
        if self.events is not None:
            shares, sizes = self._residuals_of_events(self.events)
            lengths = np.log(x[..., None] / np.maximum(sizes, 1e-12))
            return np.asarray(ndtr(-lengths / t - t) @ shares)
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
    """Expected inference of a coefficient, relative to the errors of its plan without facts.

    Printed numbers are (k,) equally likely draws.
    """

    sampling: float = 1.0  # Factor of the sampling error
    privacy: float = 1.0  # Factor of the privacy error
    # Printed variances over actual ones
    printed_sampling: Array = field(default_factory=lambda: np.ones(1))
    printed_privacy: Array = field(default_factory=lambda: np.ones(1))
    # Allowance for bias over the privacy error
    bias: Array = field(default_factory=lambda: np.zeros(1))
    part: float = 0.0  # Bias by clipping over the allowance for it, root mean square


@functools.lru_cache(maxsize=1024)
def of_rows(
    passes: tuple[PassPlan, ...], score: Traits, lengths: ScoreLengths, few: float
) -> Expectation:
    """Return the expectation of a fit by passes over rows.

    ``few``: part of the information of the coefficient in rows of large leverage.
    """
    last, r, n = passes[-1], passes[-1].p, passes[-1].rows
    rare, m = 0.0, lengths.events
    typical = score.jump * math.sqrt(r)
    if score.can_be_rare and m is not None:
        share = min(m, 1.0 - m) + rules.UNSURE_SHARE / last.strength
        typical = math.sqrt(r * max(1.0 / share - 1.0, 1.0))
        rare = max(1.0 - 4.0 * min(m, 1.0 - m), 0.0) / math.sqrt(m * (1.0 - m))
    planned, last = last, last.suited(typical, score, last)
    before_facts = noise_if_nothing_is_cut(last) if last.two_clips else planned.noise.score
    scale = 1.0 if score.bounded or score.is_event else _learnt_scale(lengths, r)
    octaves = (np.arange(rules.BINS + 1) - rules.AT_CLIP) / 2.0
    edges = last.clip / math.sqrt(r) * scale * 2.0**octaves
    counts = lengths.counts(edges, n, r)

    rng = np.random.default_rng(0)

    def drawn_pass(bins: Array) -> Released:
        of_noise = None
        if last.two_clips:  # half of the rows that are cut have one sign
            sd = last.noise.score / (ROOT * last.clip)
            of_noise = sd * rng.normal(size=(last.blocks - 1, r))
            of_noise[0] += 0.5 / math.sqrt(r) * float(counts @ UP_TO_SECOND)
        return Released(np.eye(r), np.zeros(r), bins=bins, taken=of_noise)

    draws = _draws(counts, last.noise.count, rules.FORECAST_DRAWS[0], rng)
    unit = (last.clip * scale) ** 2 / r
    squares = missed_squares(drawn_pass(counts), last)
    sd = last.noise.score / n
    early = passes[-2:][0]
    before = early.noise.score / early.rows * last.clip / passes[-1].clip
    eye = np.eye(r)
    state = State(eye[-1], eye, 1.0, eye, constant=eye[0])
    leverage = float(score.jump > 0.0) if last.uncut else score.leverage
    table = []
    for released in map(drawn_pass, draws):
        missed, two = missed_squares(released, last), taken(released, last, state, eye)
        look, safe, inverse, actual = _drawn_information(passes, score, rng)
        row = look[:1]
        J = look @ look
        if score.is_event:
            root, back = roots(safe)
            J = root @ floored(back @ J @ back, 1.0) @ root
        noise = last.noise.ordinary / last.tail_rows
        ordinary = (1.0 - few) * look @ look + _symmetric(rng, r, noise)
        d = math.hypot(sd, before) * rng.normal(size=r)
        size = float(d @ d)
        bend = 0.5 * rare * math.sqrt(max(size - r * sd * sd, size / 4.0))
        rule = Allowance(
            True, inverse, safe, ordinary, noise if last.policy.narrow else 0.0, d, 1.0, sd, None,
            leverage, bend,
        )  # fmt: skip
        added = 1.0  # to the variance of the noise
        if two is not None:
            rule = replace(rule, **two.over(n)[1])
            added += (two.sd / last.noise.score) ** 2
        along, exact = row @ inverse, row @ actual
        table.append((
            float(np.sum((exact @ look) ** 2)), added * float(np.sum(exact**2)),
            float((along @ J @ along.T)[0, 0]) * max(1.0 + unit * (missed - squares), 0.5),
            added * float(np.sum(along**2)), float(rule.bias(row)[0]) / sd,
        ))  # fmt: skip
    exact_sampling, exact_privacy, printed_sampling, printed_privacy, bias = np.array(table).T
    sampling, privacy = math.sqrt(exact_sampling.mean()), math.sqrt(exact_privacy.mean())
    far = last.noise.information / n * math.sqrt(2.0 * r)
    far = stretch(far, rules.ROWS_BEAR, rules.STRETCH_MAX)
    far *= rules.FORECAST_EXCESS[1 if score.is_event else 0]
    return Expectation(
        sampling, privacy * scale * last.noise.score / before_facts,
        (far / sampling) ** 2 * printed_sampling, (far / privacy) ** 2 * printed_privacy,
        bias / privacy, rules.BIAS_PART[0 if score.averages else 1],
    )  # fmt: skip


def _symmetric(rng: np.random.Generator, r: int, sd: float) -> Array:
    """Return a symmetric (r, r) matrix of noise, of this sd in svec coordinates."""
    noise = rng.normal(size=(r, r))
    return np.asarray(sd * (noise + noise.T) / 2.0)


def _drawn_information(
    passes: tuple[PassPlan, ...], score: Traits, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Return W of the last pass, H there, its inverse in intervals, and that of the step.

    Of rows whose information is the identity. Where H is shrunk its noise is taken to be gone.
    """
    last, r = passes[-1], passes[-1].p
    nu = [plan.noise.information / plan.rows for plan in passes[-2:]]
    if last.policy.shrinks or len(nu) < 2:
        lowered = 1.0 - min(nu[-1] ** 2 / 2.0 * (r + 1.0), 0.5)
        eye = np.eye(r)
        return eye, eye, eye / lowered, eye
    errors = [_symmetric(rng, r, sd) for sd in nu]
    look = roots(floored(np.eye(r) + errors[0], 0.05))[1]
    total, sd = errors[1], nu[1]
    if score.averages:
        weights = np.array(nu) ** -2.0
        total = (weights[0] * errors[0] + weights[1] * errors[1]) / weights.sum()
        sd = float(weights.sum() ** -0.5)
    values, vectors = np.linalg.eigh(look @ (np.eye(r) + total) @ look)
    floor = max(rules.FLOOR_NOISE * sd * math.sqrt(2.0 * r), rules.FLOOR)
    safe = np.maximum(values, floor)
    lowered = np.maximum(safe - sd, floor * rules.UNRESOLVED_VALUE)

    def matrix(of: Array) -> Array:
        return np.asarray((vectors * of) @ vectors.T)

    return look, matrix(safe), matrix(1.0 / lowered), matrix(1.0 / safe)


@functools.lru_cache(maxsize=1024)
def of_units(
    mu_score: float, sds: tuple[float, float], N: int, r: int, noise: float,
    lengths: ScoreLengths, few: float, *, stops: bool, leverage: float,
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
        total, error = (0.0, 0.0) if stops else released.overflow(clip)
        tail = Tail(total / N, error / N)
        clips.append(clip)
        bias.append(_allowance(r, tail, per_clip * clip / N, leverage, few))
    sampling = by_noisy_information(noise)  # as of the privacy error
    privacy = float(np.median(clips)) / (rules.FORECAST_CLIP * first)
    printed = np.exp(2.0 * rules.FORECAST_STRETCH * noise**2 * _normal_grid(len(bias)))
    return Expectation(sampling, privacy, printed, printed, np.array(bias), rules.BIAS_PART[1])


def by_noisy_information(noise: float) -> float:
    """Return the factor of the errors of units for an information of this noise over its size."""
    return 1.0 / max(1.0 - rules.FORECAST_STRETCH * noise**2, 0.25)


def _allowance(r: int, tail: Tail, sd: float, leverage: float, few: float) -> float:
    """Return the allowance for bias of a coefficient of units over its privacy error.

    ``sd``: noise sd of a score over n, of scores with root mean square length ``sqrt r``.
    """
    eye = np.eye(r)
    rule = Allowance(True, eye, eye, (1.0 - few) * eye, 0.0, np.zeros(r), 1.0, sd, tail, leverage)
    return float(rule.bias(eye[:1])[0]) / sd


def _draws(counts: Array, sd: float, many: int, rng: np.random.Generator) -> Array:
    """Return histograms (many, bins) with the noise of a release."""
    return np.asarray(counts + sd * rng.normal(size=(many, len(counts))))


def part_of_level(share: float, r: int) -> float:
    """Return the part of a level's information in rows of large leverage, by its share of rows."""
    return max(rules.LEVERAGE_PART, 1.0 - 2.0 * r * share)
