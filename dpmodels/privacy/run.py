"""Runs, through which alone numbers leave the private stage, and registered proofs.

It is made from the steps of a plan. Each step can be drawn once, with the mu that the plan
declared; a release that was not declared, or a second draw of one that was, is refused. So what
is charged (the plan) and what is released (the run) cannot drift apart.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmodels import messages
from dpmodels.arrays import Array
from dpmodels.errors import PrivacyBugError
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import (
    RDP,
    Approximate,
    Gaussian,
    Profile,
    Pure,
    Step,
    upper_quantile,
)
from dpmodels.privacy.noise import NoiseSource, drawn_from, exponential_weights
from dpmodels.privacy.returns import Drawn
from dpmodels.quiet import lock

#: Every noise scale is rounded up by this factor: it allows for root finders and for the lattice.
ROUND_UP = 1.0 + 1e-9
#: int64, or Python integers where these do not hold them.
Integers = npt.NDArray[Any]
#: Relative rounding error of sums of shares.
_SHARES_SLACK = 1e-12
#: Noise sd over grid step; below this the lattice is refined before noise is added.
_FINE = 1 << 20
#: Integers below it are added in 64 bits.
_FITS = 1 << 61

#: Qualifications of a guarantee whose noise is made of floats: normals, noise that is scaled by a
#: private number, tables of noised rows, and the number of runs of a selection.
FLOAT_NOTE = messages.FLOAT_NORMALS()
SMOOTH_NOTE = messages.FLOAT_LAPLACE()
TABLE_NOTE = messages.FLOAT_TABLE()
RUNS_NOTE = messages.FLOAT_RUNS()
#: A guarantee must have one of these if its release drew floats.
FLOAT_NOTES = (FLOAT_NOTE, SMOOTH_NOTE, TABLE_NOTE, RUNS_NOTE)


def tail_margin(sd: float, p: float) -> float:
    """Return t with P(noise > t) <= p for the noise that :meth:`Run.gaussian` adds.

    ``sd = sensitivity / mu``. t is ``z_p sd`` with the run's rounding up, raised by one step of the
    noise grid, which is at most 2^-20 sd: a lattice tail beyond t + grid is at most the continuous
    tail beyond t (theory.md, 6.3). ``z_p = -Phi^{-1}(p)``; 1 - p is never formed.
    """
    sd *= ROUND_UP
    return sd * upper_quantile(p) + sd / _FINE


def stability_threshold(sd: float, failure: float, k: int = 1, most: int = 0) -> float:
    """Return the threshold that bins of one unit alone pass with probability ``failure`` at most.

    For k histograms, with a row in one bin of each, it is ``1 + t``, t the margin of each of k
    bins. A person with t bins of a histogram, at most ``most``, has 1/sqrt t in each: the largest
    over t (``levels.md``, claims 1 and 2).
    """
    return max(
        1.0 / math.sqrt(t) + tail_margin(sd, -math.expm1(math.log1p(-failure) / (k * t)))
        for t in range(1, max(most, 1) + 1)
    )


def _in_64_bits(values: Integers) -> Integers:
    """Return integers as int64 if all are below 2^61, else as Python integers of any size."""
    try:
        # of objects one that 64 bits do not hold raises
        out = values if values.dtype == np.int64 else values.astype(object).astype(np.int64)
        if out.min(initial=0) > -_FITS and out.max(initial=0) < _FITS:
            return out
    except OverflowError:
        pass
    integers = np.empty(len(values), dtype=object)
    integers[:] = list(map(int, values.tolist()))
    return integers


def _sums(
    values: Integers, order: npt.NDArray[np.intp], draws: Sequence[int] | Integers,
    fines: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:  # fmt: skip
    """Return ``values[order] + draws / 2^fines``, each rounded once.

    Integers that 64 bits hold, on lattices that were not refined, are added as such: the rounding
    of their sum to a float is that of the quotient of Python integers.
    """
    noise = np.asarray(draws, dtype=None if isinstance(draws, np.ndarray) else object)
    if noise.dtype == np.int64 or set(map(type, noise.tolist())) <= {int}:
        noise = _in_64_bits(noise)  # an audit's source gives fractions: they stay
    if values.dtype == noise.dtype == np.int64 and not fines.any():
        return np.asarray((values[order] + noise).astype(float))
    ones, noises = values[order].tolist(), noise.tolist()
    return np.array(
        # quotients of integers are rounded once, as those of fractions
        [((v << f) + k) / (1 << f) for v, k, f in zip(ones, noises, fines.tolist(), strict=True)],
        dtype=float,
    )


def _nearest(v: float, grid: float) -> int:
    """Return v over ``grid``, rounded. Beyond 2^52 a float quotient would skip integers."""
    ratio = v / grid
    if abs(ratio) < 2.0**52:
        return round(ratio)
    return round(Fraction(v) / Fraction(grid)) if math.isfinite(ratio) else 0


def _on_grid(value: npt.ArrayLike, grid: float) -> npt.NDArray[Any]:
    """Round to integers of ``grid``; non-finite values become 0 without an exception."""
    array = np.asarray(value, dtype=float)
    k = [_nearest(v, grid) for v in array.ravel().tolist()]
    out = np.empty(len(k), dtype=object)
    out[:] = k
    return out.reshape(array.shape)


def _groups(sds: Array) -> tuple[list[float], npt.NDArray[np.intp], list[int]]:
    """Return the values of sds, ascending, the indices that have them, group by group, and sizes.

    Entries come in long runs of one value: only their first ones are looked at.
    """
    if not len(sds):
        return [], np.arange(0), []
    bounds = [0, *(np.flatnonzero(sds[1:] != sds[:-1]) + 1).tolist(), len(sds)]
    runs = sds[bounds[:-1]].tolist()
    scales = sorted(set(runs))
    group = {sd: i for i, sd in enumerate(scales)}
    of = np.repeat([group[sd] for sd in runs], [b - a for a, b in itertools.pairwise(bounds)])
    return scales, np.argsort(of, kind="stable"), np.bincount(of).tolist()


def _refine(scale: float) -> int:
    """Return the power of two by which the lattice is refined: scale 2^f >= 2^20."""
    return max(0, math.ceil(math.log2(_FINE / scale))) if scale < _FINE else 0


class Run:
    """The draws of one call: each step of its plan once, from one source of noise."""

    def __init__(self, steps: Iterable[Step], noise: NoiseSource) -> None:
        listed = tuple(steps)
        self._listed = listed
        self._open = {step.name: step for step in listed}
        if len(self._open) != len(listed):
            raise PrivacyBugError("two steps of a plan have the same name")
        self._drawn = 0
        #: mu^2 left of steps within whose share others are drawn; those others, by this step.
        self._left: dict[str, float] = {}
        self._paid: dict[str, str] = {}
        self.noise = noise
        self._no_reply: list[str] = []
        self._closed, self._process, self._lock = False, os.getpid(), lock()
        #: True once a release drew float noise: its guarantee must carry ``FLOAT_NOTE``.
        self.float_note = False

    @property
    def undrawn(self) -> tuple[str, ...]:
        """Names of the steps that were not drawn (charged all the same)."""
        return tuple(dict.fromkeys(map(self._payer, self._open)))

    def _payer(self, name: str) -> str:
        """Return the planned step within whose share a step is."""
        while name in self._paid:
            name = self._paid[name]
        return name

    @property
    def drawn_whole(self) -> tuple[str, ...]:
        """Names of the steps of the plan that were drawn themselves."""
        names = (step.name for step in self._listed)
        return tuple(name for name in names if name not in self._open and name not in self._left)

    @property
    def untouched(self) -> bool:
        """Whether nothing was released yet."""
        return not self._drawn

    def pay(self, name: str, steps: Iterable[Step]) -> None:
        """Start steps within the share of a planned step, and subtract their mu^2 from it.

        Sizes may depend on what was released before, never on rows: all are Gaussian, and the sum
        of their mu^2 is at most that of the planned step, on every path (theory.md, 4).
        """
        with self._lock:
            self._check_open(name)
            if name not in self._left:
                payer = self._open.get(name)
                if (
                    payer is None or payer.failure or payer.reply_test
                    or not isinstance(payer.mechanism, Gaussian)
                ):
                    raise PrivacyBugError(f"step {name!r} cannot pay for others")
                self._left[name] = payer.mechanism.mu**2
                del self._open[name]
            listed = tuple(steps)
            names = {*self._paid, *(step.name for step in self._listed)}
            for step in listed:
                if step.name in names or not isinstance(step.mechanism, Gaussian) or step.failure:
                    raise PrivacyBugError(f"step {step.name!r} cannot be paid for by {name!r}")
                names.add(step.name)
            cost = math.fsum(s.mechanism.mu**2 for s in listed if isinstance(s.mechanism, Gaussian))
            # the rounding of sums of floats is covered by ROUND_UP of the noise
            if cost > self._left[name] * (1.0 + _SHARES_SLACK):
                raise PrivacyBugError(f"step {name!r} has less left than that")
            self._left[name] = max(self._left[name] - cost, 0.0)
            self._open.update({step.name: step for step in listed})
            self._paid.update({step.name: name for step in listed})

    def close(self) -> Drawn:
        """Refuse every later draw; return the drawn parts of the planned steps.

        What a step has paid for and was not drawn counts as not paid. Good once: a second call is
        refused, and so is one in a forked process, whose copy of the run draws nothing either.
        """
        with self._lock:
            self._check_open("the end of the run")
            self._closed = True
            parts = {step.name: 0.0 if step.name in self._open else 1.0 for step in self._listed}
            paid = (s for s in self._open.values() if s.name in self._paid)
            unused = self._left | {s.name: s.mechanism.mu**2 for s in paid}
            for step in self._listed:
                if step.name in self._left:
                    back = math.fsum(k for s, k in unused.items() if self._payer(s) == step.name)
                    parts[step.name] = min(max(1.0 - back / step.mechanism.mu**2, 0.0), 1.0)
            self._open = {}
            return Drawn(parts, tuple(self._no_reply))

    def is_of(self, guarantee: Guarantee) -> bool:
        """Return whether the steps of this run are those that were charged."""
        return self._listed == (guarantee.inner or guarantee.steps)

    def _check_open(self, name: str) -> None:
        """Refuse a draw of a closed run, or in another process."""
        if self._closed:
            raise PrivacyBugError(f"step {name!r}: this run is closed, nothing can be drawn of it")
        if os.getpid() != self._process:
            raise PrivacyBugError(f"step {name!r}: a run is good in the process that made it only")

    def mechanism(self, name: str) -> Any:
        """Return the mechanism of a step that is open: public."""
        step = self._open.get(name)
        if step is None:
            raise PrivacyBugError(f"step {name!r} is not in the plan, or was drawn already")
        return step.mechanism

    def failure(self, name: str) -> float:
        """Return the failure probability that an open step adds to delta: public."""
        return float(self._open[name].failure) if name in self._open else 0.0

    def _take(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """Return the mechanism of a planned step, once: a second draw of it is refused."""
        with self._lock:
            self._check_open(name)
            step = self._open.pop(name, None)
            if step is None:
                raise PrivacyBugError(f"step {name!r} is not in the plan, or was drawn already")
            if not isinstance(step.mechanism, kind):
                raise PrivacyBugError(f"step {name!r} is planned as {step.mechanism!r}")
            self._drawn += 1
            return step.mechanism

    def gaussian(
        self, name: str, value: npt.ArrayLike, sensitivity: float, *,
        weights: npt.ArrayLike = 1.0, unit: float = 1.0,
    ) -> npt.NDArray[np.float64]:  # fmt: skip
        """Release integers with exact discrete Gaussian noise; return them times ``unit``.

        ``sensitivity`` is the L2 sensitivity of ``weights * value``, in lattice units: entry j gets
        noise of sd ``sensitivity / (mu * weights_j)``, mu that of the step, which is Gaussian.
        """
        mu = self._take(name, Gaussian).mu
        return self._with_noise(name, value, mu, sensitivity, weights, unit)

    def _with_noise(
        self, name: str, value: npt.ArrayLike, strength: float, sensitivity: float,
        weights: npt.ArrayLike, unit: float, *, laplace: bool = False, refined: bool = True,
    ) -> npt.NDArray[np.float64]:  # fmt: skip
        """Return integers with noise of scale ``sensitivity / (strength weights)``, times ``unit``.

        What is no integer is cut to one. Gaussian noise unless ``laplace``; ``refined``: on a finer
        lattice than that of the value, where the noise is small.
        """
        array = np.asarray(value)
        flat, shape = _in_64_bits(array.ravel()), array.shape
        w = np.asarray(weights, dtype=float)
        w = (w if w.shape == shape else np.broadcast_to(w, shape)).ravel()
        if not (strength > 0 and math.isfinite(sensitivity) and sensitivity > 0):
            raise PrivacyBugError(
                f"step {name!r}: its mu or eps and the sensitivity must be positive and finite"
            )
        if not ((w > 0) & np.isfinite(w)).all():
            raise PrivacyBugError(f"step {name!r}: weights must be positive and finite")
        scales, order, sizes = _groups(sensitivity / (strength * w) * ROUND_UP)
        fines = [_refine(scale) if refined else 0 for scale in scales]
        # a power of two times a float is exact, and so is its square: scales, or variances
        pairs = zip(scales, fines, strict=True)
        laws = [Fraction(math.ldexp(scale, fine)) ** (2 - laplace) for scale, fine in pairs]
        together = None if laplace else getattr(self.noise, "discrete_gaussians", None)
        draws: Any
        if together is not None:  # the source draws all groups at once
            draws = together(laws, sizes)
        else:
            draw = self.noise.discrete_laplace if laplace else self.noise.discrete_gaussian
            draws = [k for law, size in zip(laws, sizes, strict=True) for k in draw(law, size)]
        out = np.empty(len(flat))
        out[order] = _sums(flat, order, draws, np.repeat(fines, sizes))
        out *= unit
        return out.reshape(shape)

    def kept_bins(
        self, name: str, bins: npt.NDArray[np.int64], sensitivity: float, tau: float,
        masses: npt.NDArray[np.int64] | None = None,
    ) -> tuple[list[int], list[float]]:  # fmt: skip
        """Return the bins (ascending) whose noisy count is above ``tau``, and those counts.

        ``masses``: what each entry adds to its bin, in steps of 2^-20; None: 1.

        Which bins there are is private: only what passes the threshold leaves (stability
        histogram; the failure of the step covers bins of one unit).
        """
        keys, place, counts = np.unique(bins, return_inverse=True, return_counts=True)
        if masses is None:
            noisy = self.gaussian(name, counts, sensitivity)
        else:  # integers below 2^53: exact
            sums = np.zeros(len(keys), dtype=np.int64)
            np.add.at(sums, place, masses)
            noisy = self.gaussian(name, sums, sensitivity * 2.0**20, unit=2.0**-20)
        above = [(int(k), c) for k, c in zip(keys.tolist(), noisy.tolist(), strict=True) if c > tau]
        return [k for k, _ in above], [c for _, c in above]

    def gaussian_real(
        self, name: str, value: npt.ArrayLike, sensitivity: float
    ) -> npt.NDArray[np.float64]:
        """Release a real vector: rounded to a public grid of 2^-30 sensitivity, then as above.

        ``sensitivity`` must already contain the float allowance of the statistic (2^-20 of it
        allows for the rounding).
        """
        grid = sensitivity * 2.0**-30
        return self.gaussian(name, _on_grid(value, grid), 2.0**30, unit=grid)

    def laplace(
        self, name: str, value: npt.ArrayLike, sensitivity_l1: float, *,
        weights: npt.ArrayLike = 1.0, unit: float = 1.0, whole: bool = False,
    ) -> npt.NDArray[np.float64]:  # fmt: skip
        """Release integers with exact discrete Laplace noise; return them times ``unit``.

        ``sensitivity_l1`` is the L1 sensitivity of ``weights * value``, in lattice units: entry j
        gets noise of scale ``sensitivity_l1 / (eps * weights_j)``, eps that of the step, which is
        Pure. ``whole``: the noise keeps to the lattice of the value (the geometric mechanism); else
        the lattice is refined.
        """
        eps = self._take(name, Pure).eps
        return self._with_noise(
            name, value, eps, sensitivity_l1, weights, unit, laplace=True, refined=not whole
        )

    def choose(
        self, name: str, penalties: npt.ArrayLike, *, sensitivity: int = 1, largest: int = 1 << 62
    ) -> npt.NDArray[np.intp]:
        """Choose one candidate a row of ``penalties`` by the exponential mechanism.

        Penalties are integers >= 0, in lattice steps, ``largest`` their public bound. One change
        moves those of all rows together by at most ``sensitivity``. Candidate i has probability
        proportional to ``exp(-eps penalty_i / (2 sensitivity))``: integers within 2^-80 of it, and
        one exact draw. Penalties are cut at a public number, a map with slope at most 1.
        ``ROUND_UP`` allows for the relative error of the weights (``models/table/theory.md``, 2.1).
        """
        eps = self._take(name, Pure).eps
        if not (eps > 0 and sensitivity > 0):
            raise PrivacyBugError(f"step {name!r}: eps and sensitivity must be positive")
        table = np.atleast_2d(np.asarray(penalties, dtype=np.int64))
        weights = exponential_weights(eps / (2.0 * sensitivity) / ROUND_UP, table.shape[1], largest)
        out = np.empty(len(table), dtype=np.intp)
        for i, row in enumerate(table):
            cut = np.clip(row, 0, len(weights) - 1)
            values, counts = np.unique(cut, return_counts=True)
            masses = [weights[v] * c for v, c in zip(values.tolist(), counts.tolist(), strict=True)]
            k = drawn_from(masses, self.noise)
            place = self.noise.integers_below(int(counts[k]), 1)[0]
            out[i] = np.flatnonzero(cut == values[k])[place]
        return out

    def laplace_real(
        self, name: str, value: npt.ArrayLike, sensitivity_l1: float
    ) -> npt.NDArray[np.float64]:
        """Release a real vector with Laplace noise; rounded to a public grid first.

        ``sensitivity_l1`` must already contain the float allowance (2^-20 of it allows for the
        rounding of all entries: the grid is 2^-30 of it over the next power of two of the length).
        """
        bits = 30 + max(1, np.asarray(value).size).bit_length()
        grid = math.ldexp(sensitivity_l1, -bits)
        return self.laplace(name, _on_grid(value, grid), 2.0**bits, unit=grid)

    def scaled_laplace(
        self, name: str, value: npt.ArrayLike, scale: npt.ArrayLike, *, grid: float
    ) -> npt.NDArray[np.float64]:
        """Release a real vector with Laplace noise whose scale depends on the data.

        The step is the pair that the caller proves for its *smooth* sensitivity (Nissim,
        Raskhodnikova and Smith 2007). Released values are whole multiples of a public ``grid``.

        Noise on a lattice of private width, added to a private value, would spell out that value:
        what is left over by the lattice tells neighbours apart for certain. So the noise is drawn
        2^30 times finer than it is wide, twice over, and the sum is rounded to the public grid.
        The statement is that of the real-valued mechanism; the guarantee must carry
        ``SMOOTH_NOTE``.
        """
        self._take(name, Approximate)
        self.float_note = True
        array = np.asarray(value, dtype=float)
        draws = self.noise.discrete_laplace(Fraction(2**60), array.size)
        noise = np.array([k * 2.0**-60 for k in draws]).reshape(array.shape) * ROUND_UP
        return _on_grid(array + np.asarray(scale, dtype=float) * noise, grid).astype(float) * grid

    def coin(self, name: str, p: float) -> bool:
        """Reply with probability ``p``, exactly. The step states what the coin costs.

        The slope of p in the data is the method's own proof (efficient Propose-Test-Release).
        """
        self._take(name, (Approximate, Pure, Profile))
        return self._toss_coin(name, p)

    def _toss_coin(self, name: str, p: float) -> bool:
        """Draw the coin of a step and, if it comes up 0, remember that the step gave no reply."""
        reply = self.noise.bernoulli(p)
        if not reply:
            self._no_reply.append(name)
        return reply

    def float_normals(
        self, name: str, value: npt.ArrayLike, sensitivity: float
    ) -> npt.NDArray[np.float64]:
        """Release a real array with float normals, for outputs that are not lattice statistics.

        The result is rounded to a public grid of 2^-30 noise sd, and the guarantee must carry
        ``FLOAT_NOTE``: nothing here is exact.
        """
        mu = self._take(name, Gaussian).mu
        if not (mu > 0 and math.isfinite(sensitivity) and sensitivity > 0):
            raise PrivacyBugError(f"step {name!r}: mu and sensitivity must be positive and finite")
        self.float_note = True
        array = np.asarray(value, dtype=float)
        array = np.where(np.isfinite(array), array, 0.0)
        sd = sensitivity / mu * ROUND_UP
        grid = sd * 2.0**-30
        noisy = array + sd * self.noise.normals(array.size).reshape(array.shape)
        return self.on_grid(noisy, grid)

    @staticmethod
    def on_grid(noisy: Any, grid: Any) -> npt.NDArray[np.float64]:
        """Return an output that has its noise, rounded to a public grid."""
        return np.asarray(np.round(noisy / grid) * grid)

    def coins(self, size: int) -> npt.NDArray[np.uint8]:
        """Draw secret uniform bytes: which rows a pass reads.

        They open no step and cost nothing: the proof of the release that uses them holds for any
        outcome of the coins, hence for their mixture.
        """
        return self.noise.coins(size)

    def inner_normals(self, name: str, size: int) -> npt.NDArray[np.float64]:
        """Draw float standard normals that a mechanism uses *inside* (they are not its output).

        For mechanisms with their own proof, stated by the step: objective perturbation,
        posterior sampling. The guarantee must carry ``FLOAT_NOTE``.
        """
        return self.inner_source(name).normals(size)

    def inner_draw(
        self, name: str, size: int,
        function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    ) -> npt.NDArray[np.float64]:  # fmt: skip
        """Return the vector that a mechanism computes from such normals, if later steps use it.

        As in :meth:`inner_normals`, but a replay returns the same vector, not the same normals.
        """
        return function(self.inner_normals(name, size))

    def inner_source(self, name: str) -> NoiseSource:
        """Return the noise source, for a mechanism that draws its own noise and has its own proof.

        The planned step counts as drawn. The guarantee must carry ``FLOAT_NOTE``.
        """
        self._take(name, (Gaussian, Profile, RDP, Approximate))
        self.float_note = True
        return self.noise

    def sketch_normals(self, name: str) -> Callable[[int], npt.NDArray[np.float64]]:
        """Return the source of float normals of a random sketch; the step states its cost.

        For releases that *multiply* rows by noise (a Gaussian sketch). The guarantee must carry
        ``FLOAT_NOTE``.
        """
        self._take(name, RDP)
        self.float_note = True
        return self.noise.normals

    def noisy_table(
        self, name: str, values: npt.NDArray[np.float64], *, shape: npt.ArrayLike,
        sensitivity: float, lower: npt.ArrayLike, grid: npt.ArrayLike,
    ) -> None:  # fmt: skip
        """Add float noise to every row of a table (d, n), in place, and round to a public grid.

        The step is a Profile with parameters c and p (SL noise: one radius a row, the row left as
        it is with probability p), Pure (independent Laplace noise) or Gaussian. ``shape`` (d,) is
        the noise sd of the columns, up to the common factor that the step fixes; ``sensitivity``,
        in its units, the l2 distance of neighbours (SL, Gaussian), or the l1 distance (Laplace).
        Released values are ``lower + k grid``; what is not finite becomes ``lower``. The guarantee
        of the call must carry a note: nothing here is exact.
        """
        m = self._take(name, (Profile, Pure, Gaussian))
        if not (math.isfinite(sensitivity) and sensitivity > 0):
            raise PrivacyBugError(f"step {name!r}: sensitivity must be positive and finite")
        parameters = dict(m.parameters) if isinstance(m, Profile) else {}
        clear = float(parameters.get("p", 0.0))
        if isinstance(m, Pure):
            factor = math.sqrt(2.0) * sensitivity / m.eps
        else:
            factor = sensitivity / (m.mu if isinstance(m, Gaussian) else parameters["c"])
        sd = np.asarray(shape, dtype=float)[:, None] * factor * ROUND_UP
        lo = np.asarray(lower, dtype=float)[:, None]
        step = np.asarray(grid, dtype=float)[:, None]
        self.float_note = True
        d, n = values.shape
        height = max(1, (1 << 18) // d)
        for start in range(0, n, height):
            part = values[:, start : start + height]
            k = part.shape[1]
            z = self.noise.normals(d * k).reshape(d, k)
            if not isinstance(m, Gaussian):
                rows = d if isinstance(m, Pure) else 1
                z *= np.sqrt(self.noise.exponentials(rows * k)).reshape(rows, k)
            if clear > 0:
                z[:, self.noise.uniforms(k) < clear] = 0.0
            z *= sd
            if not math.isfinite(float(part.sum())):  # never where cells were clipped before
                part[~np.isfinite(part)] = np.nan
            part -= lo
            if math.isnan(float(part.sum())):
                np.nan_to_num(part, copy=False, nan=0.0)
            part += z
            part /= step
            np.round(part, out=part)
            part *= step
            part += lo

    def coin_gaussian(
        self, name: str, probability: float, value: npt.ArrayLike, sd: float, *,
        base: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.float64] | None:  # fmt: skip
        """Reply with the given probability, then with Gaussian noise of sd ``sd`` on ``value``.

        The accounting of the pair is the method's own proof (efficient Propose-Test-Release).
        Returns None for "no reply". ``base`` is added to the value, without a rounding but that to
        the grid: where it is large, the float sum of the two would jump by more than the noise.

        The grid is 2^-50 of the noise, so at most 2^-20 of the sensitivity for up to 2^20 entries
        as long as the noise is below 2^20 sensitivities; noise wider by 2^-20 allows for the
        rounding.
        """
        self._take(name, Approximate)
        if not self._toss_coin(name, probability):
            return None
        sd = sd * (1.0 + 2.0**-20)
        grid = sd * 2.0**-50
        k = _on_grid(value, grid)
        if base is not None:
            k = k + _on_grid(base, grid)
        sigma2 = Fraction(2.0**50 * ROUND_UP) ** 2
        draws = self.noise.discrete_gaussian(sigma2, k.size)
        flat = [(v + z) * grid for v, z in zip(k.ravel().tolist(), draws, strict=True)]
        return np.array(flat).reshape(k.shape)


# -- Releases that are no query: each has its own proof, by name.
#
# The prover knows sums of clipped units and lemmas about them. Releases that are tested, sampled,
# perturbed or drawn otherwise are listed here: ``Ask.raw`` gives rows to nobody else. What each
# proves, and where, is in :mod:`dpmodels.privacy.proofs`.


@dataclass(frozen=True)
class OwnProof:
    """Proof that is not derived: the functions that may hold rows for it, and their draws."""

    name: str
    where: tuple[str, ...]  # ``module:function`` under ``dpmodels``
    draws: tuple[str, ...]  # Draws of :class:`dpmodels.privacy.run.Run`


#: Folder of the releases with separate proofs.
_HERE = "own"

OWN_PROOFS: dict[str, OwnProof] = {
    proof.name: proof for proof in (
        OwnProof(
            "ePTR, least squares",
            (_HERE + ".least_squares:release", _HERE + ".least_squares:begin_eptr"),
            ("gaussian_real", "coin_gaussian"),
        ),
        OwnProof("posterior draws", (_HERE + ".draws:release", _HERE + ".draws:begin_draw"),
                 ("inner_normals", "inner_draw")),
        OwnProof("output perturbation", (_HERE + ".compared:noisy_ridge",), ("gaussian_real",)),
        OwnProof("gaussian sketch", (_HERE + ".compared:sketch",), ("sketch_normals",)),
        OwnProof("objective perturbation",
                 (_HERE + ".tilted:tilted_minimum",), ("inner_normals", "gaussian_real")),
        OwnProof("logistic posterior",
                 (_HERE + ".curvature:release_tested",), ("gaussian_real", "inner_normals")),
        OwnProof("ePTR, class means", (_HERE + ".class_means:tested_means",), ("coin_gaussian",)),
        OwnProof("smooth sensitivity, class means",
                 (_HERE + ".class_means:smooth_means",), ("scaled_laplace",)),
        OwnProof("projector", (_HERE + ".projector:tested_projector",), ("gaussian_real",)),
        OwnProof(
            "ePTR, kernel regression",
            (_HERE + ".kernel_curve:tested_curve",), ("coin_gaussian",),
        ),
        OwnProof("classic propose-test-release, mean",
                 (_HERE + ".proposed:release_ptr",), ("coin_gaussian",)),
        OwnProof("ePTR for a user-supplied estimator",
                 (_HERE + ".proposed:release_eptr",), ("coin_gaussian", "gaussian_real")),
        OwnProof("generalized propose-test-release for a user-supplied mechanism",
                 (_HERE + ".proposed:release_gptr",), ("laplace_real", "inner_source")),
        OwnProof("selection", (_HERE + ".best:_best",), ("inner_source",)),
        OwnProof("stable winner", (_HERE + ".voting:majority",), ()),
        OwnProof(
            "PATE with a data-dependent bound",
            (_HERE + ".voting:answer_queries",), ("inner_source",),
        ),
        OwnProof("noised rows", (_HERE + ".noised:noised_rows",), ("noisy_table",)),
    )
}  # fmt: skip


def own_proof(name: str) -> OwnProof:
    """Return the proof of a name."""
    return OWN_PROOFS[name]
