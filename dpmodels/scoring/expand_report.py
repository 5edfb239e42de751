"""From a released fit over units to coefficients, errors and words. Sees no row.

The mirror of :mod:`dpmodels.scoring.report` for the engine of expansions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpmodels.arrays import Array
from dpmodels.scoring.expand_rules import LOUD
from dpmodels.scoring.fitted import Common, estimated, if_determined
from dpmodels.scoring.intervals import Inference, infer_units
from dpmodels.scoring.public_rows import effects_beyond
from dpmodels.scoring.state import State, roots
from dpmodels.scoring.words import EMPTY, SEEN, named, no_ranges_note

if TYPE_CHECKING:
    from dpmodels.planning import Plan
    from dpmodels.release import Estimate, Release
    from dpmodels.scoring.expand_engine import UnitChain, UnitRelease
    from dpmodels.scoring.expand_fit import UnitDetail


@dataclass(frozen=True, eq=False)
class UnitPart:
    """One model of a fit over units, in the user's units.

    Attributes
    ----------
    chain : UnitChain
    inference : Inference
    params : (p,) array
    T : (p, r) array
        Maps a step in w to coefficients.
    unit : float
        Unit responses to one of the user's.
    """

    chain: UnitChain
    inference: Inference
    params: Array
    T: Array
    unit: float = 1.0

    @property
    def before(self) -> State:
        """Where the last pass looked from."""
        return self.chain.before

    @property
    def spread(self) -> Array:
        """Map of the whitened score of a unit to the coefficients."""
        out = self.T @ self.inference.inverse * math.sqrt(self.before.phi)
        return np.asarray(out @ roots(self.inference.meat)[0])

    @property
    def noise(self) -> float:
        """Noise of the information over its size, as released: ``nu sqrt(2p)/(tr H/p)``."""
        last, found = self.inference.plan, self.chain.released[-1].information
        r, n = len(found), last.rows
        size = max(float(np.trace(found)) / (r * n), 1e-300)
        return last.noise.information / n * math.sqrt(2.0 * r) / size

    @property
    def undetermined(self) -> npt.NDArray[np.bool_]:
        """Which coefficients are not determined: along unresolved directions, or all.

        All where the released noise of the information is beyond what intervals were found to bear.
        """
        return self.inference.undetermined(self.T) | (self.noise > LOUD)

    @property
    def constant(self) -> None:
        """None: no share of complete rows is released of units."""
        return None


def estimate_units(
    plan: Plan[UnitDetail], release: Release, stats: Callable[[UnitPart], dict[str, float]], *,
    back: Callable[[UnitRelease, UnitChain], tuple[Array, Array]] | None = None,
    names: Sequence[str] | None = None, common: Common | None = None,
    lost: npt.NDArray[np.bool_] | None = None, more: Sequence[str] = (),
    arrays: Callable[[UnitPart], dict[str, Array]] | None = None,
) -> Estimate:  # fmt: skip
    """Map the last step of every model to the user's units, with bias-aware errors.

    Parameters
    ----------
    stats : function
        What the room reports beside the coefficients: released numbers.
    back : function
        (A, a) of a model: coefficients in the user's units are ``A theta + a``. None: those of
        the columns.
    names : sequence of str
        Of the coefficients; None: of the columns.
    common : function
        Correlation of the scores of models i and j; None: 0.
    lost : bool array
        Coefficients that the design does not determine.
    more : sequence of str
        Notes of the room.
    arrays : function
        What the room keeps of its (first) model beside its information: released numbers.
    """
    detail = plan.detail
    own = tuple(names or release.design.names)
    labels = [label for _, label in detail.models]
    if not release.reply:
        return no_ranges_note([name for label in labels for name in named(own, label)])
    found: UnitRelease = release.detail
    coordinates, clusters = found.coordinates, found.clusters
    parts, beyond = [], []
    for i, chain in enumerate(found.chains):
        A, a = coordinates.back() if back is None else back(found, chain)
        own_meat = None if clusters is None else functools.partial(found.meat, i)
        inference = if_determined(infer_units(chain, detail.rows, own_meat), clusters, i)
        parts.append(
            UnitPart(
                chain, inference, A @ chain.last.state.theta + a,
                A @ chain.before.W.T, float(coordinates.unit.scale[-1]),
            )
        )  # fmt: skip
        score = getattr(chain.expansion, "score", None)
        of_response = back is None and names is None and score is not None and score.of_residual
        beyond.append(
            effects_beyond(release.design, parts[-1].params) if of_response
            else np.zeros(len(own), dtype=bool)
        )  # fmt: skip
    return estimated(
        plan, parts, labels, own, stats,
        lost=~coordinates.identified if lost is None else lost, common=common,
        clusters=clusters, statistics=found.statistics, notes=[*_void(plan, parts[0]), *more],
        arrays={
            "information": found.chains[0].released[-1].information,
            **({} if arrays is None else arrays(parts[0])),
        },
        beyond=np.concatenate(beyond),
    )  # fmt: skip


def _void(plan: Plan[Any], part: UnitPart) -> list[str]:
    """Say how many units count as nothing: the histogram has one entry each of the others."""
    if plan.request.relation != "replace":
        return []
    lengths, N = part.chain.lengths[-1], part.inference.plan.rows
    lost = min(1.0 - float(np.sum(lengths.counts)) / N, 1.0)
    sd = lengths.sd * math.sqrt(len(lengths.counts)) / N
    if lost < EMPTY or lost <= SEEN * sd:
        return []
    counted = "people have no row that counts" if plan.request.unit is not None else "rows count"
    said = f"About {lost:.0%} of the {counted}"
    end = "" if plan.request.unit is not None else " as nothing"
    return [f"{said}{end} (from the released histogram, free)."]
