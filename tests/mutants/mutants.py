"""One-line changes that a test must notice: privacy, ledger and inference.

``tests`` are the files (and options) that are run on a mutant: few, so that the list runs in
minutes; ``"|"`` begins another run. ``equivalent`` is the proof that no test can tell the mutant from the original.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""


REPLAY = "tests/privacy/test_replay.py"


def replayed(word):
    return (REPLAY, "-k", word)


_M = "dpmodels/models/"
_PEOPLE = ("tests/privacy/test_people.py",)
_UNITS = ("tests/unit/scoring/test_expansion.py", "tests/unit/scoring/test_unit_engine.py")
_TABLES = ("tests/privacy/test_people_tables.py",)
#: What is done with a fit, and new releases about one.
HOLDOUT = ("tests/privacy/test_queries.py", "-k", "held_out")
ORACLE = ("tests/unit/after/test_oracle.py",)
AFTER = (
    Mutant("dpmodels/after/moments.py", "+ float(np.sum(inner * Cn))", "", ORACLE),
    Mutant("dpmodels/after/moments.py", "return np.asarray(straight + crossed - twice)", "return np.asarray(straight + crossed)", ORACLE),
    Mutant("dpmodels/after/moments.py", "m.form_covariance(residual_form, total_form),", "0.0,", ORACLE),
    Mutant("dpmodels/after/inference.py", "ncx2.sf(central, df, moved)", "ncx2.sf(statistic, df, 0.0)", ORACLE),
    Mutant("dpmodels/after/inference.py", "S -= inside / 2.0", "S -= 0.0", ORACLE),
    Mutant("dpmodels/models/linear/moments.py", "min(max(least, quiet), most)", "BALL_PART * square", replayed("dp_moments-ssp")),
)  # fmt: skip
#: Rows added up by cell.
_MANNER = ("tests/unit/scoring/test_manner.py",)
_RARE = ("tests/unit/scoring/test_rare.py", "-m", "not statistical")
_WEIGHED = ("tests/privacy/test_weighed_rows.py",)
_SCALES = ("tests/unit/scoring/test_scales.py", "-m", "not statistical")
_PASS = ("tests/privacy/test_scoring_sensitivity.py", "-m", "not statistical")
_S = "dpmodels/scoring/"
#: Rules for many columns and rare events, far scores, and what is asked of ranges first.
MODELS_PEOPLE_FIT = (
    Mutant("dpmodels/privacy/run.py", "self._left[name] = max(self._left[name] - cost, 0.0)", "pass", ("tests/unit/privacy/test_noise_run.py",)),
    Mutant("dpmodels/core/parallel.py", "size -= 0.5 * taken.sum(axis=0)", "pass", _PASS),
    Mutant("dpmodels/core/parallel.py", "taken[0, rows] = 0.0", "pass", _PASS),
    Mutant("dpmodels/core/parallel.py", "ROOT = math.sqrt(0.75)", "ROOT = 1.0", _PASS),
    Mutant("dpmodels/core/parallel.py", "np.minimum(norm - size, C, out=taken[0])", "np.subtract(norm, size, out=taken[0])", _PASS),
    Mutant("dpmodels/core/parallel.py", "by.add_rows(cells[few] + i * self.cells, part)", "by.add_rows(cells[few] + i * self.cells, 2.0 * part)", ("tests/privacy/test_cells_sensitivity.py",)),
    Mutant(f"{_S}pass_plan.py", "clip = rules.FIRST_CLIP * self.clip", "clip = self.clip", _MANNER),
    Mutant("dpmodels/core/parallel.py", "return np.asarray(psi * (TOP**2 / np.maximum(long, TOP**2)))", "return np.asarray(psi)", _PASS),
    Mutant(f"{_S}pass_plan.py", "return max(rules.MIN_NARROW_RADIUS, min(free, rules.NARROW_FACTOR * x / math.sqrt(p)))", "return max(rules.MIN_NARROW_RADIUS, free)", _MANNER),
    Mutant(f"{_S}pass_plan.py", "if p < rules.COLUMNS or pass_shares not in (", "if pass_shares not in (", _MANNER),
    Mutant(f"{_S}pass_plan.py", "noise = replace(self.noise, score=self.noise.score * clip / self.clip)", "noise = self.noise", _RARE),
    Mutant(f"{_S}passes.py", "largest = np.maximum(both[0], both[1])", "largest = np.abs(psi)", _WEIGHED),
    Mutant(f"{_S}passes.py", "of_y, matrix[-1, -1] = matrix[-1, -1], 0.0", "pass", _WEIGHED),
    Mutant(f"{_S}passes.py", "(1.0 if weight is None else np.abs(weight))", "1.0", _WEIGHED),
    Mutant("dpmodels/scoring/models.py", "size = np.maximum((1.0 - lam) * np.abs(away), beyond)", "size = (1.0 - lam) * np.abs(away)", _MANNER),
    Mutant("dpmodels/scoring/models.py", "return np.asarray(out), noise * math.sqrt(1.0 - lam)", "return np.asarray(out), noise", _MANNER),
    Mutant("dpmodels/scoring/step.py", "return 1.0 - rules.DAMPING * min(1.0, by_noise)", "return 1.0", _MANNER),
    Mutant("dpmodels/scoring/taken.py", "C * ((beyond + 0.5) * mean + 0.5 * mean_of_long)", "C * (0.5 * mean + 0.5 * mean_of_long)", _MANNER),
    Mutant("dpmodels/after/moments.py", "(1.0 - v) * sd**2 * P + spread * np.outer(along, along)", "spread * np.outer(along, along)", _MANNER),
    Mutant("dpmodels/scoring/clip.py", "return max(float(seen @ excess) - sd * float(np.linalg.norm(excess[seen > 0.0])), 0.0)", "return 0.0", _MANNER),
    Mutant(f"{_S}intervals.py", "out = v - np.minimum(step.nu**2 / 2.0 * (np.sum(1.0 / v) + 1.0 / v), 0.5 * v)", "out = v", _MANNER),
    Mutant(f"{_S}intervals.py", "J + missed * np.eye(r)", "J = J + 0.0", _MANNER),
    Mutant("dpmodels/after/inference.py", "np.maximum(length * self.least, sizes) + length * self.far", "length * self.least + length * self.far", _MANNER),
    Mutant("dpmodels/scoring/intervals.py", "max(BASE_BIAS * sd, tail)", "BASE_BIAS * sd", ("tests/unit/scoring/test_pins.py",)),
    Mutant("dpmodels/scoring/mean_models.py", "return math.sqrt(r * (1.0 - mean) / (mean * min(state.phi, 1.0)))",
           "return math.sqrt((1.0 - mean) / (mean * min(state.phi, 1.0)))", _RARE),
    Mutant("dpmodels/scoring/mean_models.py", "phi = max(phi, 1.0)  #", "phi = max(phi, 0.0)  #", _RARE),
    Mutant("dpmodels/scoring/scales.py", "return where(np.isfinite(part), clip(below, 0.0, float(last)), -1.0)", "return clip(below, 0.0, float(last))", _SCALES),
    Mutant("dpmodels/scoring/scales.py", "left = 0.5 + away * np.maximum(1.0 - noise / differ, 0.0)", "left = 0.5 + away", _SCALES),
    Mutant("dpmodels/scoring/rows.py", "mu *= math.sqrt(1.0 - math.fsum(scale.share for scale in scales))", "mu *= 1.0", _SCALES),
    Mutant("dpmodels/scoring/coordinates.py", "lo, hi = max(lo, narrow[0]), min(hi, narrow[1])", "lo, hi = narrow", _SCALES),
    Mutant("dpmodels/results/inference.py", "else adjusted(x, np.asarray(est.bias / se), est.use_t)", "else x", ("tests/unit/results/test_deciding.py",)),
    Mutant("dpmodels/results/inference.py", "x[est.untested] = np.nan", "pass", ("tests/unit/results/test_deciding.py",)),
    Mutant("dpmodels/results/inference.py", "return half_width(se, est.bias, DECIDES, est.use_t) / quantile(DECIDES, est.use_t)",
           "return se", ("tests/unit/results/test_deciding.py",)),
)
#: Numbers by their formulas: allowances, tests of means, variances, hazards, sums by cluster.
_NUMBERS = ("tests/unit/scoring/test_report_numbers.py",)
NUMBERS = (
    Mutant("dpmodels/models/survival/cox.py", "np.maximum(curve.Y - gone * curve.d, 0.0)", "np.maximum(curve.Y + gone * curve.d, 0.0)", ("tests/unit/models/survival/test_offset.py",)),
    Mutant(f"{_M}table/nulls.py", "np.clip(Q - 2.0 * m * T + m * m * N, 0.0", "np.clip(Q - m * T + m * m * N, 0.0", ("tests/unit/models/table/test_nulls.py",)),
    Mutant("dpmodels/models/panel.py", "M * M * (1 + rho * rho), K, c2)", "M * M * (1 - rho * rho), K, c2)", ("tests/unit/models/test_random_intercepts.py", "-k", "by_hand")),
    Mutant("dpmodels/scoring/cluster_plan.py", "if averaged else 1.0, part,", "if averaged else 0.0, part,", _NUMBERS),
    Mutant("dpmodels/after/inference.py", "return left[0] / right[1], left[1] / right[1]", "return left[0] / right[1], left[1] * right[1]", ("tests/unit/after/test_allowance_numbers.py",)),
    Mutant("dpmodels/after/inference.py", "return number[1] * other[0], number[1] * other[1]", "return number[1] * other[0], number[1] / other[1]", ("tests/unit/after/test_allowance_numbers.py",)),
    Mutant("dpmodels/scoring/deviance.py", "(self.chord - slope) * statistics.lift[:, 0]", "(self.chord + slope) * statistics.lift[:, 0]", _NUMBERS),
    Mutant("dpmodels/sums/cells.py", "_NOTHING * slopes.max(axis=0)", "_NOTHING * slopes.max()", ("tests/oracle/test_moments_oracles.py",)),
    Mutant("dpmodels/models/survival/table.py", "return 1e-12 * float(", "return 0.0 * float(", ("tests/unit/models/survival/test_curve.py",)),
    Mutant("dpmodels/models/survival/curve.py", "(self.d * within / self.Y**2) ** 2 / 12.0", "(self.d * within / self.Y**2) ** 2 * 0.0", ("tests/unit/models/survival/test_curve.py",)),
    Mutant("dpmodels/scoring/deviance.py", "moves[0] -= 2.0 * (at", "moves[0] += 2.0 * (at", _NUMBERS),
    Mutant("dpmodels/scoring/fit.py", "out = np.asarray(self.T @ self.inference.inverse * math.sqrt(self.release.before.phi))", "out = np.asarray(self.T @ self.inference.inverse / math.sqrt(self.release.before.phi))", _NUMBERS),
    Mutant("dpmodels/scoring/cluster_plan.py", "math.sqrt(p * m * tau)", "math.sqrt(p * m / tau)", _NUMBERS),
    Mutant("dpmodels/scoring/clip.py", "np.arange(last, rules.OCTAVES) + 0.5 - at", "np.arange(last, rules.OCTAVES) + 1.0 - at", ("tests/unit/scoring/test_expansion.py", "-k", "half_octaves")),
    Mutant("dpmodels/scoring/clip.py", "np.arange(first, last) + 0.5 - at", "np.arange(first, last) + 1.0 - at", ("tests/unit/scoring/test_expansion.py", "-k", "half_octaves")),
    Mutant("dpmodels/scoring/cluster_plan.py", "m = max(n / max(clusters, 1.0), 1.0)\n    tau", "m = max(n / max(clusters, 1.0), 0.0)\n    tau", _NUMBERS),
)  # fmt: skip
_CELLS = ("tests/privacy/test_cells_sensitivity.py",)
CELLS = (
    Mutant("dpmodels/sums/cells.py", "SHORTENED = 1.0 - 2.0**-24", "SHORTENED = 1.0", _CELLS),
    Mutant("dpmodels/sums/cells.py", "remainder & ((1 << bits) - 1)", "remainder", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/sums/cells.py", "_EXACT, _BITS = 53, 20", "_EXACT, _BITS = 54, 20", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/sums/cells.py", "if most < 2.0**62", "if most < 2.0**66", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/core/rows.py", "if matrix is not of[0]:", "if matrix is None:", ("tests/unit/core/test_rows.py",)),
    Mutant("dpmodels/core/rows.py", " & ~x.grid.missing[x.cells]", "", ("tests/unit/core/test_rows.py",)),
    Mutant("dpmodels/sums/cells.py", "_ROWS, _MANY = 1 << 13, 512", "_ROWS, _MANY = 1 << 20, 512", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/sums/cells.py", "np.flatnonzero(square > 1.0)", "np.flatnonzero(square > 1.1)", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/sums/cells.py", "column[self.places] = 0.0", "column[self.places] *= 1.0", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/sums/cells.py", "np.where(self.grid.missing, np.nan, image[self.places])", "image[self.places]", ("tests/unit/sums/test_cells.py",)),
    Mutant("dpmodels/formula/design.py", "missing = np.isnan(out).any(axis=0)", "missing = np.isnan(out).all(axis=0)", ("tests/unit/formula/test_grid.py",)),
    Mutant("dpmodels/core/parallel.py", "end_of_numbers(np.minimum(length, radius) * ahead / radius, steps=MULTIPLE)", "np.trunc(np.fmin(length, 1.2 * radius) * ahead / radius * MULTIPLE)", _CELLS),
    Mutant("dpmodels/core/parallel.py", "end_of_numbers(part * ahead, plan.clip, MULTIPLE)", "end_of_numbers(part * ahead, plan.clip, 1.1 * MULTIPLE)", _CELLS),
    Mutant("dpmodels/core/parallel.py", "ahead *= np.divide(1.0, length", "ahead *= 1.1 * np.divide(1.0, length", _CELLS),
    Mutant("dpmodels/core/parallel.py", "part[self.cells :] << LOW_NOISE", "part[self.cells :] << 19", ("tests/unit/scoring/test_cells.py",)),
    Mutant("dpmodels/core/parallel.py", "end_in_ball(z, self.kept)", "np.trunc(z, out=z)", _CELLS),
    Mutant("dpmodels/sums/cells.py", "len(cells), _ROWS):\n            part = slice(a, a + _ROWS)", "len(cells), 1 << 60):\n            part = slice(a, a + (1 << 60))", ("tests/unit/sums/test_cells.py",)),
)  # fmt: skip
#: Passes cut into tasks.
TASKS = ("tests/unit/sources/test_tasks.py",)
PASSES = ("tests/unit/sources/test_passes.py",)
CUT = (
    Mutant("dpmodels/sources/rows.py", "+ part.to_bytes(8, \"big\")", "", TASKS),
    Mutant("dpmodels/sources/rows.py", "+ bytes([purpose])", "", TASKS),
    Mutant("dpmodels/sources/rows.py", "secret.ljust(_RATE, b\"\\0\")", "b\"\"", TASKS),
    Mutant("dpmodels/sources/rows.py", "self._segment += 1", "self._segment += 0", TASKS),
    Mutant("dpmodels/sources/summed.py", "if part.index in seen:", "if False:", TASKS),
    Mutant("dpmodels/sources/summed.py", "and part.stamp == mark", "", TASKS),
    Mutant("dpmodels/sources/summed.py", "and accepts(part.sums)", "", TASKS),
    Mutant("dpmodels/sources/summed.py", "if package != _package():", "if False:", TASKS),
    Mutant("dpmodels/sources/summed.py", "dataclasses.replace(part, index=i)", "dataclasses.replace(part, index=0)", TASKS),
    Mutant("dpmodels/sources/summed.py", "hashlib.blake2b(packed, digest_size=16).hexdigest()", "\"\"", TASKS),
    Mutant("dpmodels/sources/summed.py", "source.kinds if executor.knows_parts else", "None if executor.knows_parts else", ("tests/privacy/test_typed_parts.py",)),
    Mutant("dpmodels/sources/files.py", "low, high = max(self._first - at, 0), ", "low, high = 0, ", TASKS),
    Mutant("dpmodels/sources/rows.py", "elif read != self._lengths:", "elif False:", PASSES),
    Mutant("dpmodels/sources/rows.py", "        if not self._public_n:\n            return\n", "", PASSES),
    Mutant("dpmodels/sources/summed.py", "places.append(np.arange(low, high, dtype=np.int64))", "places.append(np.arange(high - low, dtype=np.int64))", PASSES),
    Mutant("dpmodels/sources/summed.py", "and bool(((at >= 0) & (at < self.size)).all())", "", PASSES),
    Mutant("dpmodels/sources/summed.py", "part[:, np.isnan(block[-1 if self.response else 0][chosen])] = np.nan", "", PASSES),
)
SUBSET = ("tests/unit/ranges/test_random_subset.py",)
#: Sums of integer rows.
LATTICE = ("tests/privacy/test_lattice_sensitivity.py",)
ROWS = (
    Mutant("dpmodels/bought.py", "numbers[numbers <= last] % np.uint64(n)", "numbers % np.uint64(n)", SUBSET),
    Mutant("dpmodels/bought.py", "drawn[np.sort(first)[:size]]", "np.unique(drawn)[:size]", SUBSET),
    Mutant("dpmodels/core/kernels.py", "towards_zero(part)", "np.rint(part, out=part)", LATTICE),
    Mutant("dpmodels/core/kernels.py", "(K * labels[a : a + height], K)", "(K * labels[a : a + height] * 1.01, K)", LATTICE),
    Mutant("dpmodels/own/kernel_curve.py", "return 2.0 * math.sqrt(2.0 * m) / kernels.KERNEL", "return math.sqrt(2.0 * m) / kernels.KERNEL", LATTICE),
    Mutant("dpmodels/own/kernel_curve.py", "/ math.sqrt(ridge)", "", LATTICE),
    Mutant("dpmodels/own/kernel_curve.py", "answer.margin(failure / m)[0]", "answer.margin(0.5)[0]", ("tests/unit/models/kernel/test_npreg.py",)),
    Mutant("dpmodels/own/kernel_curve.py", "return 2.0 if len(points) == 1 else 2.0 * math.sqrt(2.0) * joint_norm(points, h)", "return 1.0", ("tests/unit/models/kernel/test_npreg.py",)),
    Mutant("dpmodels/proof/prove.py", "return math.sqrt(2.0) * (GRID + 1e5 * n * 2.0**-53) + lattice", "return 1.0 * (GRID + 1e5 * n * 2.0**-53) + lattice", (REPLAY, "-k", "npreg")),
    Mutant("dpmodels/core/kernels.py", "high += total >> WORD_BITS", "pass", LATTICE),
    Mutant("dpmodels/core/kernels.py", "nearest((at - cell) * WEIGHT_STEPS)", "nearest((at - cell) * WEIGHT_STEPS * 1.01)", LATTICE),
    Mutant("dpmodels/own/minimum.py", "rows.radius * loss.score)) - 64)", "rows.radius * loss.score)) - 48)", LATTICE),
    Mutant("dpmodels/own/minimum.py", "g -= upper", "g = g - upper - 1.0", LATTICE),
    Mutant("dpmodels/own/minimum.py", "nan=_TOP", "nan=0.0", LATTICE),
    Mutant("dpmodels/models/components.py", "ball=p, radius=radius)", "ball=p - 1, radius=radius)", LATTICE),
    Mutant("dpmodels/core/classes.py", "present &= sum(z[j] * z[j] for j in block) <= STEPS**2", "pass", ("tests/unit/core/test_sets.py",)),
    Mutant("dpmodels/core/kernels.py", "np.clip(y.numbers[0], -1.0, 1.0)", "y.numbers[0]", ("tests/unit/core/test_sets.py",)),
    Mutant("dpmodels/sums/ask.py", "if eps > pair.eps * (1.0 + 1e-12) or delta > pair.delta:", "if False:", ("tests/unit/models/kernel/test_npreg.py",)),
    Mutant("dpmodels/core/classes.py", "(at >= 0.0) & (at < K)", "(at >= 0.0)", ("tests/unit/core/test_sets.py",)),
    Mutant("dpmodels/core/sets.py", "end_of_rows(z.in_steps(STEPS), self.shape[1])", "end_of_rows(z.in_steps(STEPS))", LATTICE),
    Mutant("dpmodels/models/objpert.py", "zip((np.sqrt(second), first)", "zip((np.sqrt(2.0 * second), first)", LATTICE),
)

#: Rows by themselves, and maps that are total.
ALONE = ("tests/privacy/test_rows_by_themselves.py", "-k", "bit_by_bit or parts_of")
END = ("tests/unit/sums/test_end.py",)
TOTAL = ("tests/privacy/test_rows_by_themselves.py", "-k", "leaves or short or finite or ranges")
_X = "dpmodels/exact/"
BY_THEMSELVES = (
    Mutant("dpmodels/sums/products.py", "_cut_matrix(matrix, (_EXACT - (q - 1).bit_length()) // 2)", "_cut_matrix(matrix, 29)", ALONE),
    Mutant("dpmodels/sums/products.py", "    low += second\n    low -= second\n", "", ALONE),
    Mutant("dpmodels/sums/products.py", "    high -= first\n    low -= high\n", "    high -= first\n", ALONE),
    Mutant("dpmodels/sums/products.py", "square = squares(part)", 'square = np.einsum("ij,ij->j", part, part)', ALONE),
    Mutant("dpmodels/own/minimum.py", "norm = length(x)", 'norm = Rows(np.sqrt(np.einsum("ij,ij->j", x.numbers, x.numbers))[None])', ALONE),
    Mutant("dpmodels/sums/products.py", "        w[:, gone] = 0.0\n        length[gone]", "        length[gone]", END),
    Mutant("dpmodels/sums/products.py", "        length[gone] = 0.0\n", "", END),
    Mutant("dpmodels/sums/products.py", "        out[:, gone] = 0.0\n    return", "        pass\n    return", END),
    Mutant("dpmodels/sums/products.py", "factor = np.minimum(size, radius)", "factor = size.copy()", END),
    Mutant("dpmodels/sums/products.py", "        w[:, ~complete] = 0.0\n", "        pass\n", END),
    Mutant("dpmodels/sums/products.py", "out = np.clip(t, low * most, most)", "out = np.clip(t, -most, most)", END),
    Mutant("dpmodels/sums/products.py", "        out[~np.isfinite(out)] = 0.0\n", "        pass\n", END),
    Mutant("dpmodels/sums/rowmap.py", "np.where(complete, STEPS, 0.0)", "np.full(len(complete), STEPS)", END),
    Mutant("dpmodels/sums/products.py", "complete &= np.abs(factor) <= VAST", "complete &= ~np.isnan(factor)", TOTAL),
    Mutant(
        "dpmodels/sums/products.py", "else square >= LEAST", "else square > 0.0", TOTAL,
        equivalent="of a row below 1e-140 steps a score is psi w itself: |psi| <= 1e140 never clips it",
    ),
    Mutant(
        "dpmodels/sums/products.py", "~((square >= LEAST) & (square <= MOST))", "~(square <= MOST)", TOTAL,
        equivalent="the root of what is below LEAST is below 1e-140, which end_along takes for 0",
    ),
    Mutant("dpmodels/sums/products.py", "np.where(finite, sums, 0.0).astype(np.int64)", "np.nan_to_num(sums).astype(np.int64)", TOTAL),
    Mutant("dpmodels/core/parallel.py", "present, long = usable(square, factor, weight)", "present, long = usable(square, factor)", TOTAL),
    Mutant("dpmodels/variables.py", "max(-lo, hi) > LARGEST", "hi > LARGEST", TOTAL),
    Mutant("dpmodels/formula/build.py", "if declared and interval is None:", "if False:", TOTAL),
    Mutant("dpmodels/formula/words.py", "max(abs(lo), abs(hi)) <= LARGEST", "max(abs(lo), abs(hi)) < math.inf", TOTAL),
)  # fmt: skip

#: Budgets against brute force.
BUDGETS = ("tests/unit/privacy/test_budget_property.py",)
_ACCOUNT = "dpmodels/privacy/account.py"
ACCOUNTS = (
    Mutant(_ACCOUNT, "yield (cover[0] * _SLACK) ** 2, 0.0, cover[1]", "yield (cover[0] * _SLACK) ** 2, 0.0, 0.0", BUDGETS),
    Mutant(_ACCOUNT, "yield (cover[0] * _SLACK) ** 2, 0.0, cover[1]", "yield (cover[0] * 0.9) ** 2, 0.0, cover[1]", BUDGETS),
    Mutant(_ACCOUNT, "yield mu2 + as_gauss, 0.0, failure", "yield as_gauss, 0.0, failure", BUDGETS),
    Mutant(_ACCOUNT, "        failure += step.failure\n", "", BUDGETS),
    Mutant(_ACCOUNT, "failure += m.delta if isinstance(m, Approximate) else 0.0", "failure += 0.0", BUDGETS),
    Mutant(_ACCOUNT, "triples = [(0.0, eps, delta), ((mu_of_pure(eps) * _SLACK) ** 2, 0.0, delta)]", "triples = [(0.0, eps, delta), ((mu_of_pure(eps) * _SLACK) ** 2, 0.0, 0.0)]", BUDGETS),
    Mutant(_ACCOUNT, "if unit != guarantee.unit:\n        pair = guarantee.record_pair", "if unit != guarantee.unit:\n        pair = (guarantee.eps, guarantee.delta)", BUDGETS),
    Mutant(_ACCOUNT, "and pairs[1] <= self.delta * _DIGITS", "", BUDGETS),
    Mutant(_ACCOUNT, "        if cap_delta > self.delta:\n            return None\n", "", BUDGETS),
    Mutant(_ACCOUNT, "or first.failure > self.delta", "", BUDGETS),
    Mutant(_ACCOUNT, "and f <= box[2] * _DIGITS", "", BUDGETS),
    Mutant(_ACCOUNT, "m <= (box[0] * _SLACK) ** 2 and", "", BUDGETS),
    Mutant(_ACCOUNT, "and u <= box[1] * _DIGITS", "", BUDGETS),
    Mutant(_ACCOUNT, "entries.insert(0, Entry(mu * mu, 0.0, failure, eps, delta))", "entries.insert(0, Entry(mu * mu / 4, 0.0, failure, eps, delta))", BUDGETS),
    Mutant(_ACCOUNT, "return self._mu(cap_eps, self.delta - cap_delta * _DIGITS), cap_eps, cap_delta", "return self._mu(cap_eps, self.delta), cap_eps, cap_delta", BUDGETS),
    Mutant("dpmodels/privacy/reports.py", "if account.pairs[1] <= delta * (1 + 1e-12):", "if True:", BUDGETS),
    Mutant("dpmodels/privacy/mechanisms.py", "return 2.0 * mu, min(1.0, failure + float(ndtr(mu - upper_quantile(failure))))", "return 2.0 * mu, failure", BUDGETS),
)  # fmt: skip

#: Normals inside a mechanism.
INNER = ("tests/privacy/test_inner_normals.py",)
INNER_NORMALS = (
    Mutant("dpmodels/own/curvature.py", "np.linalg.cholesky(H + lam * np.eye(design.p))", "np.linalg.cholesky(H + alpha * np.eye(design.p))", INNER),
    Mutant("dpmodels/own/curvature.py", "normals) / math.sqrt(gamma)", "normals) / gamma", INNER),
    Mutant("dpmodels/own/tilted.py", "tilt = detail.sigma * raw", "tilt = 0.9 * detail.sigma * raw", INNER),
    Mutant("dpmodels/own/draws.py", "noise = normals / math.sqrt(done.gamma)", "noise = normals / done.gamma", INNER),
    Mutant("dpmodels/own/draws.py", "return np.asarray(theta + np.linalg.solve(L.T, noise))", "return np.asarray(theta + np.linalg.solve(L, noise))", INNER),
)  # fmt: skip

#: People between passes.
PASSES = ("tests/unit/sources/test_people_passes.py",)
_S = "dpmodels/sources/people.py"
PEOPLE_PASSES = (
    Mutant(_S, "key, order, at = noise.coins(8), noise.permutation(self.n), 0", "key, order, at = noise.coins(8), np.arange(self.n), 0", PASSES),
    Mutant(_S, "if self.person.count is None and people != self.n:", "if self.person.count is None and people > self.n:", PASSES),
    Mutant(_S, "if self.person.count is not None and people > self.person.count:", "if False:", PASSES),
    Mutant(_S, "        if not self._public_n:\n            return\n        if self.person.count is not", "        if self.person.count is not", PASSES),
)  # fmt: skip

#: Noise inside variances, statistics and labels.
NOISE = ("tests/statistical/test_noise_in_errors.py", "-k")
STATS = ("tests/unit/results/test_stats_oracle.py",)
LABELS = ("tests/unit/results/test_labels.py",)
PRINTED = (
    Mutant("dpmodels/models/mean.py", "privacy = H * (sd**2 * np.eye(d) + sd_count", "privacy = H * (0.5 * sd**2 * np.eye(d) + sd_count", (*NOISE, "mean")),
    Mutant("dpmodels/models/glm.py", "privacy = sd**2 * A @ A.T", "privacy = sd * A @ A.T", STATS),
    Mutant(f"{_M}linear/eptr.py", "privacy = released.sigma**2 * B @ B.T", "privacy = 0.6 * released.sigma**2 * B @ B.T", (*NOISE, "eptr")),
    Mutant(f"{_M}linear/inference.py", "T @ fit_errors.sampling @ T.T, T @ fit_errors.privacy @ T.T", "T @ fit_errors.sampling @ T.T, 0.5 * T @ fit_errors.privacy @ T.T", (*NOISE, "moments")),
    Mutant("dpmodels/models/objpert.py", "sigma**2 * inverse @ inverse", "sigma * inverse @ inverse", (*NOISE, "objpert")),
    Mutant("dpmodels/scoring/fit.py", "privacy[at, at] = part.T @ part.inference.privacy @ part.T.T", "privacy[at, at] = 0.5 * part.T @ part.inference.privacy @ part.T.T", (*NOISE, "the_printed_error_is")),
    Mutant("dpmodels/scoring/deviance.py", '"deviance_se": of_fit}', '"deviance_se": 0.5 * of_fit}', (*NOISE, "statistics_of_a_fit")),
    Mutant("dpmodels/scoring/deviance.py", 'out["aic"] = deviance + 2.0 * p', 'out["aic"] = deviance + p', STATS),
    Mutant("dpmodels/scoring/deviance.py", "null = 2.0 * (convex + self.chord", "null = 1.9 * (convex + self.chord", STATS),
    Mutant("dpmodels/models/glm.py", '"dispersion": over * before.phi / part.unit**2', '"dispersion": over * before.phi / part.unit', STATS),
    Mutant("dpmodels/models/residual.py", '"sparsity": math.sqrt(part.release.before.phi) / part.unit', '"sparsity": math.sqrt(part.release.before.phi)', STATS),
    Mutant("dpmodels/models/residual.py", '"scale": math.sqrt(part.release.before.phi) / part.unit', '"scale": math.sqrt(part.release.before.phi)', STATS),
    Mutant("dpmodels/models/moments.py", 'stats["noise_margin"] = fit.trust', 'stats["noise_margin"] = 0.0', STATS),
    Mutant("dpmodels/after/inference.py", "first.append((relevance.statistic / relevance.df, relevance.df, relevance.pvalue))", "first.append((relevance.statistic, relevance.df, relevance.pvalue))", STATS),
    Mutant("dpmodels/after/inference.py", "top = float(chi2.ppf(level, len(excluded)))", "top = float(chi2.ppf(level, 1))", LABELS),
    Mutant("dpmodels/results/contrasts.py", "self.L[i] - self.L[j] for i, j in both", "self.L[j] - self.L[i] for i, j in both", LABELS),
    Mutant("dpmodels/results/contrasts.py", "tuple(map(str, listed))", "tuple(map(str, reversed(listed)))", LABELS),
    Mutant(f"{_M}table/testing.py", "{axis.labels[1]} - {axis.labels[0]}", "{axis.labels[0]} - {axis.labels[1]}", LABELS),
)  # fmt: skip

#: Constants that pay for rounding: seen by fractions, or by nobody.
FRACTIONS = ("tests/privacy/test_rounding.py",)
ROUNDING = (
    Mutant("dpmodels/sums/products.py", "SHRINK = 1.0 - 2.0**-36", "SHRINK = 1.0", FRACTIONS),
    Mutant("dpmodels/sums/rowmap.py", "_ON_BALL = 1.0 - 2.0**-30", "_ON_BALL = 1.0", FRACTIONS),
    Mutant("dpmodels/sums/rowmap.py", "_ON_BALL = 1.0 - 2.0**-30", "_ON_BALL = 1.0 - 2.0**-20", FRACTIONS),
)  # fmt: skip

#: What the prover says, and what it is handed: whatever is smaller is seen at the corners.
_CORNERS = ("tests/privacy/test_queries.py", "-k", "corners_attain or sd_that_is_drawn or held_out")
_PROVE, _STAT = "dpmodels/proof/prove.py", "dpmodels/proof/statistics.py"
_DOOR = ("tests/privacy/test_queries.py", "-k", "sd_that_is_drawn")
PROVER = (
    Mutant(_PROVE, "        apart = 2.0 * added\n", "        apart = math.sqrt(2.0) * added\n", _CORNERS),
    Mutant(_PROVE, "apart = (1.0 - of.low) * added", "apart = added", _CORNERS),
    Mutant(_PROVE, "return max(two if of.cells > 1 else added, _joint_norm(norm, added, k))", "return max(added, _joint_norm(norm, added, k))", _CORNERS),
    Mutant(_PROVE, "max(w * (of.high - of.low), alone if k else 0.0)", "w * (of.high - of.low)", _CORNERS),
    Mutant(_PROVE, "return gram_l1(k, relation) * square", "return gram_l1(k, relation) * square / 2.0", _CORNERS),
    Mutant(_PROVE, "return gram_sensitivity(k, relation) * square", "return square", _CORNERS),
    Mutant(_PROVE, "return max(S, add_remove_sensitivity(a, b, c, e, f, k))", "return S / 1.5", _CORNERS),
    Mutant(_PROVE, "return 2.0 * added if relation == \"replace\" else added", "return added", _CORNERS),
    Mutant(_PROVE, "(1.0 + 2.0 * c) ** 2 / (4.0 * c)", "2.0", _CORNERS),
    Mutant(_PROVE, "added = s.count + d * (1.0 + c)", "added = s.count + d", _CORNERS),
    Mutant(_PROVE, "(2.0 if s.low == 0 else 4.0) * d", "2.0 * d", _CORNERS),
    Mutant(_PROVE, "    return 4.0\n", "    return 3.0\n", _CORNERS),
    Mutant(_PROVE, "return (2.0 if norm == \"l1\" else math.sqrt(2.0)) * added", "return added", _CORNERS),
    Mutant(_PROVE, "return math.sqrt((2.0 if relation == \"replace\" else 1.0) * s.levels)", "return math.sqrt(s.levels)", _CORNERS),
    Mutant(_PROVE, "return max(sensitivity(s.each, \"replace\", norm), _joint_norm(norm, alone, alone))", "return alone", _CORNERS),
    Mutant(_PROVE, "return _joint_norm(norm, *parts) * _ROUNDED", "return max(parts) * _ROUNDED", _CORNERS),
    Mutant(_PROVE, "        best = 4.0 + kappa\n", "        best = 2.0 + kappa\n", _CORNERS),
    Mutant(_PROVE, "2.0 * kappa + 2.0 + 0.5 / kappa", "2.0 * kappa + 0.5 / kappa", _CORNERS),
    Mutant(_PROVE, "if 1 < r <= MOST_COLUMNS and not people:", "if 1 < r <= MOST_COLUMNS:", _CORNERS),
    Mutant(_PROVE, "return math.sqrt(matrices + scores)", "return math.sqrt(max(matrices, scores))", _CORNERS),
    Mutant(_PROVE, "2 * most * s.groups", "1 * most * s.groups", ("tests/privacy/test_queries.py", "-k", "choices")),
    Mutant("dpmodels/sums/ask.py", "moved = sensitivity(statistic, self._relation, norm) * query.factor", "moved = sensitivity(statistic, self._relation, norm) * query.factor / 2.0", _DOOR),
    Mutant("dpmodels/sums/ask.py", "if self._relation != \"replace\" or self.by_person:", "if self._relation != \"replace\":", ("tests/privacy/test_door_of_a_stage.py",)),
    Mutant("dpmodels/core/parallel.py", "lattice /= STEPS\n", "lattice = lattice\n", ("tests/privacy/test_queries.py", "-k", "laid or lays_down or reach")),
)  # fmt: skip

MUTANTS = (
    *PROVER,
    *BY_THEMSELVES,
    *ROUNDING,
    *PRINTED,
    *PEOPLE_PASSES,
    *INNER_NORMALS,
    *ACCOUNTS,
    *AFTER,
    *NUMBERS,
    *CUT,
    *ROWS,
    # -- people as units
    Mutant(
        "dpmodels/sums/rowmap.py",
        "np.divide(TOP, root, out=factor, where=root > radius)",
        "np.divide(TOP, root, out=factor, where=root > 2.0 * radius)",
        _PEOPLE,
    ),
    Mutant(
        "dpmodels/scoring/units.py",
        "information=gram_l2 * H2 / part(share.information)",
        "information=gram_l2 * H2 / part(share.information) / 2.0",
        _UNITS,
    ),
    Mutant(
        "dpmodels/scoring/step.py",
        "d = d * min(1.0, model.longest(state) / max(moved, 1e-300))",
        "pass",
        _UNITS,
    ),
    Mutant(
        "dpmodels/core/sets.py",
        "steps = towards_zero(totals / np.maximum(totals[0] / STEPS, 1.0))",
        "steps = totals",
        _PEOPLE,
    ),
    Mutant(
        "dpmodels/sources/people.py",
        "lowest = np.minimum.reduceat(hashes, starts)",
        "hashes = np.arange(len(hashes))\n            lowest = np.minimum.reduceat(hashes, starts)",
        _PEOPLE,
    ),
    Mutant(
        "dpmodels/privacy/mechanisms.py",
        "Step(s.name, Gaussian(m * s.mechanism.mu), s.share",
        "Step(s.name, Gaussian(m**0.5 * s.mechanism.mu), s.share",
        ("tests/unit/units/test_unit_argument.py",),
    ),
    Mutant(
        "dpmodels/sources/people.py",
        "taken = rank < most",
        "taken = rank < most + 1",
        ("tests/unit/units/test_unit_argument.py",),
    ),
    Mutant(
        "dpmodels/sources/people.py",
        "if self.person.count is not None and people > self.person.count:",
        "if False:",
        ("tests/unit/units/test_unit_argument.py",),
    ),
    Mutant(
        "dpmodels/sums/rowmap.py",
        "rows = np.asarray(counts, dtype=np.int64)[who]",
        "rows = np.ones(len(who), dtype=np.int64)",
        _TABLES,
    ),
    Mutant(
        "dpmodels/sums/rowmap.py",
        "up_to -= np.repeat(before, np.diff(np.r_[-1, ends]))",
        "",
        _TABLES,
    ),
    Mutant(
        "dpmodels/core/tables.py",
        "(people - sums.arrays[1]) * int(STEPS)",
        "0",
        ("tests/unit/units/test_unit_argument.py",),
    ),
    Mutant(
        "dpmodels/sources/people.py",
        "return _by_person(data, column, dict(kinds)).shuffle(on=_PLACE)",
        "return _by_person(data, column, dict(kinds))",
        ("tests/unit/sources/test_together.py",),
    ),
    Mutant(
        "dpmodels/sources/summed.py",
        "            source = TypedPart(source, self.types, WHOLE)",
        "            pass",
        ("tests/privacy/test_typed_parts.py",),
    ),
    Mutant(
        "dpmodels/units.py",
        "        if kind != self._type:",
        "        if False:",
        ("tests/unit/units/test_ids.py",),
    ),
    Mutant(
        "dpmodels/sources/people.py",
        "out[_PLACE] = (number ^ (number >> 32)) & 0x7FFFFFFF",
        "out[_PLACE] = np.arange(len(number))",
        ("tests/unit/sources/test_together.py",),
    ),
    Mutant(
        "dpmodels/sources/sorted.py",
        "ORDER BY head, number, place",
        "ORDER BY number, place",
        ("tests/unit/sources/test_ordered.py",),
    ),
    Mutant(
        "dpmodels/sources/sorted.py",
        "new[0] = key != self._last",
        "new[0] = True",
        ("tests/unit/sources/test_ordered.py",),
    ),
    Mutant(
        "dpmodels/sources/people.py",
        'not getattr(job, "of_people", False)',
        "False",
        ("tests/unit/sources/test_together.py",),
    ),
    Mutant(
        "dpmodels/models/moments.py",
        "nan if lost or detail.people else fit.sampling",
        "nan if lost else fit.sampling",
        ("tests/unit/models/moments/test_by_person.py",),
    ),
    Mutant(
        "dpmodels/units.py",
        "ranked = sorted(places, key=lambda key: (isinstance(key, str), key))",
        "ranked = list(places)",
        ("tests/unit/units/test_ids.py",),
    ),
    Mutant(
        "dpmodels/privacy/account.py",
        "if column_of(unit) or column_of(guarantee.unit):",
        "if False:",
        ("tests/unit/units/test_unit_argument.py",),
    ),
    # -- scoring: rules, sums, engine, newton, intervals, and the ending of dp_ols
    Mutant(
        "dpmodels/scoring/pass_plan.py",
        'mu_scale = mu_pass * math.sqrt(share["scale"])',
        'mu_scale = mu_pass * share["scale"]',
        ("tests/unit/scoring/test_pins.py", "|", *replayed("ols-ssp")),
    ),
    Mutant(
        "dpmodels/scoring/pass_plan.py",
        "mu_pass = mu * math.sqrt(pass_shares.passes[k])",
        "mu_pass = mu * math.sqrt(pass_shares.passes[k] * 1.1)",
        ("tests/unit/scoring/test_pins.py", "tests/privacy/test_scoring_sensitivity.py"),
    ),
    Mutant(
        "dpmodels/core/parallel.py",
        "end_of_numbers(norm * norm / plan.scale_cut, low=0.0).sum())\n        if plan.mu_histogram:\n            sums.bins += counted_lengths(norm[present]",
        "np.trunc(norm * norm / plan.scale_cut * STEPS).sum())\n        if plan.mu_histogram:\n            sums.bins += counted_lengths(norm[present]",
        replayed("ols-ssp"),
    ),
    Mutant(
        "dpmodels/core/parallel.py",
        "end_of_numbers(factor, ROW_FACTOR_MAX * self.plan.clip, TOP)",
        "end_of_numbers(factor, 2 * ROW_FACTOR_MAX * self.plan.clip, 2 * TOP)",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/sums/products.py",
        "beyond = np.flatnonzero(~(length <= TOP))",
        "beyond = np.flatnonzero(~(length <= 1.2 * TOP))",
        replayed("ols-ssp"),
    ),
    Mutant(
        "dpmodels/core/parallel.py",
        "factor = np.where(present, factor, 0.0)  # missing",
        "factor = factor + 0.0  # missing",
        ("tests/privacy/test_scoring_sensitivity.py", "|", *replayed("ols-ssp")),
        equivalent="z and its length are 0 there, so that norms are 0 or NaN, which end_of_numbers, end_along "
        "and factors count as 0; bins take the rows that are there",
    ),
    *CELLS,
    *MODELS_PEOPLE_FIT,
    Mutant(
        "dpmodels/scoring/program.py",
        "Start.of(Q, sd, many, coordinates)",
        "Start.of(Q, sd, to.pilot.early(to.n), coordinates)",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/models.py",
        "np.minimum((rules.VISIBLE_SDS * sd) ** 2 / square, 1.0)",
        "np.minimum((rules.VISIBLE_SDS * sd) ** 2 / square, 0.0)",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/step.py",
        "most = state.length(step.d), rules.MAX_EARLY_STEP *",
        "most = state.length(step.d), 10 * rules.MAX_EARLY_STEP *",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/models.py",
        "np.maximum(values, floor)",
        "np.maximum(values, floor / 10)",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/intervals.py",
        "sampling = phi * free / n * inverse @ varied @ inverse",
        "sampling = phi / n * inverse @ J @ inverse",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/intervals.py",
        "phi, sd = before.phi, step.sd\n",
        "phi, sd = before.phi, step.sd / 2\n",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/intervals.py",
        "noisy_H = step.nu**2 / 2.0 *",
        "noisy_H = 0.0 *",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/clip.py",
        "seen = (bins > limit) | np.append(pairs, False) | np.append(False, pairs)",
        "seen = bins > limit",
        ("tests/unit/scoring/test_expansion.py",),
    ),
    Mutant(
        "dpmodels/scoring/fit.py",
        "paid.mu(paid.rest)",
        "ranges.mu",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/rows.py",
        'ordered = request.relation == "replace" and',
        "ordered =",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/ranges.py",
        "REACH = 64.0",
        "REACH = 1.0",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/fit.py",
        "V[every] = V[:, every] = math.nan",
        "V[every] = math.nan",
        ("tests/unit/scoring/test_pins.py",),
    ),
    Mutant(
        "dpmodels/scoring/fit.py",
        "return n / max(n - rank, 1.0)",
        "return 1.0",
        ("tests/unit/scoring/test_pins.py",),
    ),
    # -- families, quantiles, robust losses
    Mutant(
        "dpmodels/core/parallel.py",
        "np.sqrt(np.maximum(omega, 0.0))",
        "np.sqrt(np.abs(omega))",
        ("tests/privacy/test_family_sensitivity.py",),
    ),
    Mutant(
        "dpmodels/sums/products.py",
        "factor *= STEPS / radius * SHRINK\n",
        "factor *= 2.0 * STEPS / radius * SHRINK\n",
        ("tests/privacy/test_family_sensitivity.py",),
    ),
    Mutant(
        "dpmodels/scoring/rows.py",
        "part = mu / math.sqrt(len(chains))",
        "part = mu",
        ("tests/unit/scoring/test_families.py",),
    ),
    Mutant(
        "dpmodels/families.py",
        "np.where(self.valid(y), psi, np.nan)",
        "psi",
        ("tests/unit/scoring/test_families.py", "tests/privacy/test_family_sensitivity.py"),
    ),
    Mutant(
        "dpmodels/scoring/models.py",
        "height = 1.0 / (math.sqrt(2.0 * math.pi) * width * root)",
        "height = 1.0 / (math.sqrt(2.0 * math.pi) * width)",
        ("tests/unit/scoring/test_families.py",),
    ),
    Mutant(
        "dpmodels/scoring/models.py",
        "theta = start.shifted(sd * float(special.ndtri(self.tau)))",
        "theta = start.theta",
        ("tests/unit/scoring/test_families.py",),
    ),
    Mutant(
        "dpmodels/scoring/pass_plan.py",
        "score=noise.score * C / clip",
        "score=self.noise.score * (C / self.clip) ** 2",
        ("tests/privacy/test_family_sensitivity.py",),
    ),
    Mutant(
        "dpmodels/scoring/pass_plan.py",
        "noise.information * (R / self.information) ** 2",
        "self.noise.information * (R / self.information) ** 4",
        ("tests/privacy/test_family_sensitivity.py",),
    ),
    Mutant(
        "dpmodels/scoring/deviance.py",
        "moves[0] -= 2.0 *",
        "moves[0] -= 0.0 *",
        ("tests/unit/scoring/test_families.py",),
    ),
    Mutant(
        "dpmodels/core/sets.py",
        "np.clip(t, -0.5, 0.5)",
        "np.clip(t, -0.5, 1.5)",
        ("tests/unit/scoring/test_families.py",),
    ),
    # -- curves on arrays
    Mutant(
        "dpmodels/privacy/mechanisms.py",
        "out[far] = s / (beyond + s)",
        "out[far] = 0.99 * s / (beyond + s)",
        ("tests/unit/privacy/test_curves_on_arrays.py",),
    ),
    Mutant(
        "dpmodels/own/tilted.py",
        "factor * add_remove_curves(eps / 2, rho=rho, kappa=kappa)",
        "add_remove_curves(eps / 2, rho=rho, kappa=kappa)",
        ("tests/unit/privacy/test_curves_on_arrays.py",),
    ),
    Mutant(
        "dpmodels/privacy/composition.py",
        "math.sqrt(2.0 * math.pi)) / (1.0 + x * x)",
        "math.sqrt(2.0 * math.pi)) / (2.0 + x * x)",
        ("tests/unit/privacy/test_curves_on_arrays.py",),
    ),
    Mutant(
        "dpmodels/privacy/composition.py",
        "NEGLIGIBLE = 1e-26",
        "NEGLIGIBLE = 1e-3",
        ("tests/unit/privacy/test_curves_on_arrays.py",),
    ),
    Mutant(
        "dpmodels/own/tilted.py",
        "if (short * 2 * near <= _SHORT_OF).all():",
        "if True:",
        ("tests/unit/privacy/test_curves_on_arrays.py",),
    ),
    Mutant(
        "dpmodels/sources/rows.py",
        "keep = later.choose(passed)",
        "keep = coins.choose(passed)",
        ("tests/unit/sources/test_kept_cells.py",),
    ),
    # -- exact noise in bulk
    Mutant(
        "dpmodels/privacy/noise.py",
        "counts = np.minimum(counts, need)",
        "counts = np.minimum(counts, need + 1)",
        ("tests/unit/privacy/test_bulk.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "    scaled += 2.0  # the number",
        "    scaled += 0.0  # the number",
        ("tests/unit/privacy/test_bulk.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "np.array([0, *powers], dtype=np.uint64)",
        "np.array([0, *powers], dtype=np.uint64) // np.uint64(2)",
        ("tests/unit/privacy/test_bulk.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "~(negative & (magnitudes == 0))",
        "~(negative & (magnitudes < 0))",
        ("tests/unit/privacy/test_bulk.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "if Fraction(word + 1, 1 << bits) <= low:",
        "if Fraction(word, 1 << bits) <= low:",
        ("tests/unit/privacy/test_bulk.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "z *= -0.5\n",
        "z *= -0.45\n",
        ("tests/unit/privacy/test_bulk.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "if value or not negative:",
        "if value or negative + 1:",
        ("tests/unit/privacy/test_noise_run.py", "-k", "one_by_one"),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "return a * a, 2 * num * den * t * t",
        "return a * a, 3 * num * den * t * t",
        ("tests/unit/privacy/test_noise_run.py", "-k", "one_by_one"),
    ),
    # -- least squares by moments, ePTR, and companions
    Mutant(
        "dpmodels/own/least_squares.py",
        'values["theta"] = raw.gaussian_real(STEP_NAMES["coef"], theta, h)',
        'values["theta"] = raw.gaussian_real(STEP_NAMES["coef"], theta, h / 2)',
        replayed("ols-eptr"),
    ),
    Mutant(
        "dpmodels/own/compared.py",
        "raw.gaussian_real(COEFFICIENTS, theta, moved)",
        "raw.gaussian_real(COEFFICIENTS, theta, moved / 2)",
        replayed("outpert"),
    ),
    Mutant(
        "dpmodels/own/draws.py",
        "rbar = max(rbar, Y)",
        "rbar = rbar / 2",
        ("tests/privacy/test_exact_pins.py",),
    ),
    # -- logistic and Poisson
    Mutant(
        "dpmodels/own/tilted.py",
        "tilt = detail.sigma * raw",
        "tilt = 0.5 * detail.sigma * raw",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/own/tilted.py",
        "2.0 * detail.tol / detail.lam",
        "1.0 * detail.tol / detail.lam",
        INNER,
    ),
    Mutant(
        "dpmodels/own/minimum.py",
        "while size > 0.5 * tol and length >= _SHORTEST:",
        "while size > 0.5 * tol and used < 11:",
        ("tests/unit/models/glm/test_glm_passes.py",),
    ),
    Mutant("dpmodels/own/curvature.py", "low, size * factor)", "low, size)", replayed("glm-gptr")),
    Mutant(
        "dpmodels/own/tilted.py",
        "return max(delta_gdp(eps, rho), removal_delta(eps, rho, kappa))",
        "return delta_gdp(eps, rho)",
        ("tests/unit/privacy/test_curves_on_arrays.py",),
    ),
    # -- ranges
    Mutant(
        "dpmodels/ranges.py",
        "sd = math.sqrt(2.0 * bins) / purchase.mu",
        "sd = 1e-3 * math.sqrt(2.0 * bins) / purchase.mu",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/ranges.py",
        "return sd, 1.0 + tail_margin(sd, purchase.delta / bins)",
        "return sd, tail_margin(sd, purchase.delta / bins)",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/ranges.py",
        "Gaussian(mu / math.sqrt(2 * v)),",
        "Gaussian(mu / math.sqrt(v)),",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/ranges.py",
        "failure=delta / (2 * v),",
        "failure=0.0,",
        ("tests/privacy/test_exact_pins.py",),
    ),
    # -- mean, bayes, kernel, pca, votes
    Mutant(
        "dpmodels/own/proposed.py",
        "(4 * detail.slack + 6) * c",
        "(2 * detail.slack + 6) * c",
        ("tests/privacy/test_exact_pins.py", "tests/unit/models/mean"),
    ),
    Mutant(
        "dpmodels/own/proposed.py",
        'sd = float(plan.request["alpha"]) * GRID_ALLOWANCE * agm(',
        'sd = 0.5 * float(plan.request["alpha"]) * GRID_ALLOWANCE * agm(',
        replayed("dp_eptr"),
    ),
    # -- the ground: run, composition, convert, ledger
    Mutant(
        "dpmodels/privacy/run.py",
        "_groups(sensitivity / (strength * w) * ROUND_UP)",
        "_groups(sensitivity / (2 * strength * w) * ROUND_UP)",
        ("tests/unit/privacy/test_noise_run.py",),
    ),
    Mutant(
        "dpmodels/privacy/run.py",
        "factor = math.sqrt(2.0) * sensitivity / m.eps",
        "factor = sensitivity / m.eps",
        ("tests/privacy/test_noised_release.py", "tests/privacy/test_exact_pins.py"),
    ),
    Mutant(
        "dpmodels/privacy/run.py",
        "z[:, self.noise.uniforms(k) < clear] = 0.0",
        "z[:, self.noise.uniforms(k) < 2 * clear] = 0.0",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/privacy/mechanisms.py",
        "failure + float(ndtr(mu - upper_quantile(failure)))",
        "2.0 * failure",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/privacy/mechanisms.py",
        "failure += step.failure\n",
        "failure += 0.0\n",
        ("tests/privacy/test_exact_pins.py",),
    ),
    Mutant(
        "dpmodels/privacy/composition.py",
        "return min(1.0, self.infinite + tail)",
        "return min(1.0, tail)",
        ("tests/unit/privacy/test_composition.py",),
    ),
    Mutant(
        "dpmodels/privacy/account.py",
        "    for step in guarantee.steps:\n        m = step.mechanism\n        failure += step.failure\n",
        "    for step in guarantee.steps:\n        m = step.mechanism\n",
        ("tests/privacy/test_exact_pins.py", "tests/unit/privacy/test_budget.py"),
    ),
    Mutant(
        "dpmodels/privacy/account.py",
        "u + entry.pure, f + entry.failure)",
        "u + entry.pure, f)",
        ("tests/unit/privacy/test_budget.py", "tests/privacy/test_exact_pins.py"),
    ),
    Mutant(
        "dpmodels/privacy/account.py",
        "and f <= box[2] * _DIGITS",
        "",
        ("tests/unit/privacy/test_budget.py", "tests/privacy/test_exact_pins.py"),
    ),
    Mutant(
        "dpmodels/privacy/account.py",
        "others = min(_MIXED_BOXES * max(free, 0.0), max(free - cap, 0.0))",
        "others = max(free, 0.0)",
        ("tests/unit/privacy/test_budget.py", "tests/privacy/test_exact_pins.py"),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "p, q = delta, 1.0 - delta",
        "p, q = 2 * delta, 1.0 - 2 * delta",
        ("tests/unit/privacy", "-k", "coin"),
    ),
    Mutant(
        "dpmodels/privacy/ledger_file.py",
        'db.execute("PRAGMA synchronous=EXTRA")',
        'db.execute("PRAGMA synchronous=OFF")',
        ("tests/privacy/test_exact_pins.py",),
    ),
    # -- item 41: windows of votes, coins, noised tables, allowance, bounds, listed levels
    Mutant(
        "dpmodels/own/voting.py",
        "m = _CELLS_PER_MOVE + 1  #",
        "m = _CELLS_PER_MOVE - 1  #",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "np.maximum(up - value, value - down)",
        "np.minimum(up - value, value - down)",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "np.maximum(up - value, value - down)",
        "value - down",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "2 * (_CELLS_PER_MOVE + 1) + 1\n",
        "_CELLS_PER_MOVE + 2\n",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "if math.exp(-b * d) * top <= best:",
        "if d > 1:",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "value = np.maximum.accumulate(f[::-1])[::-1]",
        "value = f",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "-gaps / (math.sqrt(2.0) * sigma)",
        "-gaps / (2.0 * sigma)",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/own/voting.py",
        "step = 1.0 / (sigma * _CELLS_PER_MOVE)",
        "step = 2.0 / (sigma * _CELLS_PER_MOVE)",
        ("tests/privacy/test_vote_windows.py",),
    ),
    Mutant(
        "dpmodels/sources/rows.py",
        "np.bitwise_or.reduce(planes, axis=0)",
        "planes[0]",
        ("tests/unit/sources/test_coins.py",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "return np.frombuffer(os.urandom(size), dtype=np.uint8)",
        "return np.frombuffer(os.urandom(size), dtype=np.uint8) & 0x7F",
        ("tests/unit/sources/test_coins.py",),
    ),
    Mutant(
        "dpmodels/scoring/pass_plan.py",
        "self.windows.count(n) if by_place else n // self.every, 1",
        "n // self.every, 1",
        ("tests/unit/sources/test_coins.py",),
    ),
    Mutant(
        "dpmodels/scoring/pass_plan.py",
        "        return max(n // self.every, 1)\n",
        "        return max(n, 1)\n",
        ("tests/unit/sources/test_coins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/fit.py",
        "if solution.converged and edge is None and request.inference",
        "if solution.converged and request.inference",
        ("tests/unit/models/noised/test_fits.py", "-k", "at_an_end_of_the_box"),
    ),
    Mutant(
        "dpmodels/own/noised.py",
        "[g for g in self.groups if variable in g.variables]",
        "[g for g in self.groups if {variable} == g.variables]",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/own/noised.py",
        "m = max(self.attribute(v)[1] for v in g.variables)",
        "m = min(self.attribute(v)[1] for v in g.variables)",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/own/noised.py",
        "m = max(self.attribute(v)[1] for v in g.variables)",
        "m = g.ldiam",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "psi = x * u[:, None] + (D @ theta - k)",
        "psi = x * u[:, None]",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "psi = x * u[:, None] + (D @ theta - k)",
        "psi = x * u[:, None] + (D @ theta)",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "sigma2 = rss / total - float(phi @ K @ phi)",
        "sigma2 = rss / total",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "K = (1.0 - model.clear_prob) * model.total if",
        "K = model.total if",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "cov = inverse @ (A / total) @ inverse.T / total",
        "cov = inverse @ (A / total) @ inverse.T / model.n",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "psi = a * model.X * u1[:, None] + b * second",
        "psi = model.X * u1[:, None] + b * second",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "clean = fit.sigma2 * np.linalg.inv(fit.M) / model.n",
        "clean = fit.sigma2 * np.linalg.inv(fit.M)",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        "dpmodels/models/noised/solve.py",
        "np.clip(w, 0.0, 1.0)",
        "np.maximum(w, 0.0)",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        _M + "noised/objective.py",
        "                psi += factor * (terms.q.T @ dq)\n",
        "                pass\n",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        _M + "noised/objective.py",
        "return v @ phi, 2.0 * v[:, :-1]",
        "return v @ phi, v[:, :-1]",
        ("tests/unit/models/noised/test_noised_pins.py",),
    ),
    Mutant(
        _M + "linear/inference.py",
        " + float(np.sum(A * Cn))\n",
        "\n",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        _M + "linear/inference.py",
        "fit_errors = replace(fit_errors, weight_shift=allowance(facts, d))",
        "pass",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        _M + "linear/inference.py",
        "privacy = privacy + np.outer(shift, shift)",
        "pass",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        _M + "linear/inference.py",
        "weight_shift=J @ d - d)",
        "weight_shift=0.0 * d)",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/models/linear/solve.py",
        "kappa / (1.0 - kappa) * d",
        "kappa * d",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/models/linear/solve.py",
        "    kappa[0] = level\n",
        "",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/models/linear/solve.py",
        "total = P + np.outer(mean - d, mean - d)",
        "total = P",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/models/linear/solve.py",
        "privacy=positive_part(total - fit_errors.sampling)",
        "privacy=positive_part(total)",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        _M + "linear/eptr.py",
        "(q - sigma2 * float(eigenvalues.sum())) / free",
        "q / free",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        _M + "linear/eptr.py",
        "free = max(m - p, 1.0)",
        "free = max(m, 1.0)",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/own/least_squares.py",
        "return (detail.ry + radius * float(np.linalg.norm(theta))) ** 2",
        "return detail.ry**2 + (radius * float(np.linalg.norm(theta))) ** 2",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/own/least_squares.py",
        "t = np.append(-theta, 1.0)",
        "t = np.append(theta, 1.0)",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/own/least_squares.py",
        "ls_bound(radius, ry, rtheta) / safe *",
        "ls_bound(radius, ry, rtheta) / lower *",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/proof/sets.py",
        "(2.0 * k * c + 2.0 * s * c)",
        "(2.0 * k * c)",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/proof/sets.py",
        "32.0 * p * p * n",
        "32.0 * p * n",
        ("tests/unit/models/linear/test_linear_pins.py",),
    ),
    Mutant(
        "dpmodels/formula/categories.py",
        "if v in levels else -1 for v in cat.levels), -1]",
        "if v in levels else 0 for v in cat.levels), -1]",
        ("tests/unit/formula/test_listed_levels.py",),
    ),
    Mutant(
        "dpmodels/formula/categories.py",
        "if v in levels else -1 for v in cat.levels), -1]",
        "if v in levels else -1 for v in cat.levels)]",
        ("tests/unit/formula/test_listed_levels.py",),
    ),
    # -- tables, quantiles, tests
    Mutant(
        "dpmodels/core/tables.py",
        "unit_mass - low - high, high",
        "unit_mass - low, high",
        (REPLAY, "-k", "dp_table",),
    ),
    Mutant(
        "dpmodels/privacy/noise.py",
        "            power = powers.pop()\n",
        "            power = powers[-2]\n",
        ("tests/unit/models/table/test_quantile.py", "-k", "weights"),
    ),
    Mutant(
        _M + "table/nulls.py",
        "copies * np.diag(D)",
        "np.diag(D)",
        ("tests/unit/units/test_kept_rows.py",),
    ),
    Mutant(
        _M + "table/nulls.py",
        "V = copies * D + noise",
        "V = D + noise",
        ("tests/unit/units/test_kept_rows.py",),
    ),
    Mutant(
        _M + "table/nulls.py",
        "V = copies * n * (np.diag(p0)",
        "V = n * (np.diag(p0)",
        ("tests/unit/units/test_kept_rows.py",),
    ),
    Mutant(
        _M + "table/nulls.py",
        "copies * V + K @ C @ K.T",
        "V + K @ C @ K.T",
        ("tests/unit/units/test_kept_rows.py",),
    ),
    Mutant(
        "dpmodels/records.py",
        "None if V is None else m * V",
        "V",
        ("tests/unit/units/test_kept_rows.py",),
    ),
    Mutant(
        "dpmodels/models/table/quantiles.py",
        "grid[1:] - self.step / 2.0",
        "grid[1:]",
        ("tests/unit/models/table/test_quantile.py",),
    ),
    Mutant(
        "dpmodels/privacy/run.py",
        "eps / (2.0 * sensitivity) / ROUND_UP",
        "eps / sensitivity / ROUND_UP",
        ("tests/unit/models/table/test_quantile.py",),
    ),
    Mutant(
        "dpmodels/privacy/run.py",
        "weights[v] * c for v, c",
        "weights[v] for v, c",
        ("tests/unit/models/table/test_quantile.py",),
    ),
    Mutant(
        "dpmodels/models/table/noise.py",
        "1.0 - 1.0 / self.sizes[j] for j in s",
        "1.0 for j in s",
        ("tests/unit/models/table/test_effects.py",),
    ),
    Mutant(
        "dpmodels/models/table/quantiles.py",
        "below / (below + self.variance)",
        "self.variance / (below + self.variance)",
        ("tests/unit/models/table/test_quantile.py",),
    ),
    Mutant(
        _M + "table/nulls.py",
        "tau2 * np.eye(k) + m * m * C",
        "m * m * C",
        ("tests/unit/models/table/test_power.py",),
    ),
    Mutant(
        _M + "table/nulls.py",
        "A, B = contrasts(p_r), contrasts(p_c)",
        "A, B = contrasts(p_c), contrasts(p_r)",
        ("tests/unit/models/table/test_nulls.py",),
    ),
    Mutant(
        "dpmodels/models/table/table.py",
        "count - half, count + half",
        "count - half / 2, count + half",
        ("tests/unit/models/table/test_power.py",),
    ),
)

#: The prover, the door and what a pass hands to it: every query is tested, none by hand.
QUERIES = ("tests/privacy/test_queries.py",)
_X = "dpmodels/exact/"
_OF_QUERIES = tuple(
    Mutant(file, old, new, tests)
    for file, old, new, tests in (
        ("dpmodels/sums/ask.py", "if not tau >= least * (1.0 - 1e-9):", "if False:", ("tests/unit/proof/test_prove.py",)),
        ("dpmodels/sums/ask.py", "        if self.whole:\n", "        if False:\n", ("tests/unit/proof/test_prove.py",)),
        ("dpmodels/proof/prove.py", "if norm != \"l2\" and self.size > 1:", "if False:", ("tests/unit/proof/test_prove.py",)),
        ("dpmodels/proof/prove.py", 'math.sqrt((2.0 if relation == "replace" else 1.0) * parts)', "math.sqrt(parts)", (REPLAY, "-k", "objpert")),
        ("dpmodels/models/linear/posterior.py", "half = mu * math.sqrt(math.fsum(DRAW_SHARES[k] for k in ONE_SIDED)) / 2.0", "half = mu * math.sqrt(math.fsum(DRAW_SHARES[k] for k in ONE_SIDED))", ("tests/unit/models/linear/test_gptr_start.py",)),
        ("dpmodels/own/draws.py", "at = Bounds(detail.kind, B, Y, mus[1], min(mus[2:])", "at = Bounds(detail.kind, B, Y, mus[1], 2.0 * min(mus[2:])", ("tests/unit/models/linear/test_gptr_start.py",)),
        ("dpmodels/own/least_squares.py", "ask(step, least, read).at_least(failure)", "ask(step, least, read).at_least(0.5)", ("tests/unit/models/linear/test_eptr_start.py",)),
        ("dpmodels/own/least_squares.py", 'return raw.gaussian_real(STEP_NAMES["coef"], theta, h)', 'return raw.gaussian_real(STEP_NAMES["coef"], theta, h / 2)', ("tests/unit/models/linear/test_eptr_start.py",)),
        ("dpmodels/sums/ask.py", "c * c * 2.0**-30", "c * 2.0**-30", ("tests/unit/models/linear/test_eptr_start.py",)),
        ("dpmodels/own/least_squares.py", "ask(step, least, read).at_least(failure)", "ask(step, least, read).at_least(0.5)", ("tests/unit/models/linear/test_eptr.py",)),
        ("dpmodels/models/moments.py", "people=True), rowmap.radius", "people=True), 1.0", ("tests/unit/models/moments/test_by_person.py",)),
        ("dpmodels/proof/prove.py", "apart = 2.0 * added\n", "apart = added\n", QUERIES),
        ("dpmodels/proof/prove.py", "return max(apart, alone) if relation == \"replace\"", "return apart if relation == \"replace\"", QUERIES),
        ("dpmodels/proof/prove.py", "twice = of.single + len(of.blocks), of.single + 2 * len(of.blocks)", "twice = of.single + len(of.blocks), of.single + len(of.blocks)", ("tests/unit/proof/test_prove.py",)),
        ("dpmodels/proof/prove.py", "added = 2.0 * math.sqrt(s.p) * s.rx * s.ry + s.p * s.rx * s.rx", "added = math.sqrt(s.p) * s.rx * s.ry + 0.5 * s.p * s.rx * s.rx", QUERIES),
        ("dpmodels/proof/prove.py", "return max(q.denominator, 2 * most * s.groups)", "return max(q.denominator, most * s.groups)", ("tests/privacy/test_people_tables.py",)),
        ("dpmodels/proof/prove.py", "most = q.denominator if s.offset else max(", "most = max(", ("tests/privacy/test_people_tables.py",)),
        ("dpmodels/proof/prove.py", "best = 4.0 + kappa\n", "best = 2.0 + kappa\n", ("tests/privacy/test_scoring_sensitivity.py",)),
        ("dpmodels/proof/prove.py", "LATTICE = 1.0 + 2.0**-12", "LATTICE = 1.0", ("tests/privacy/test_scoring_sensitivity.py",)),
        ("dpmodels/proof/prove.py", "return square * (1.0 + float_allowance(int(p), int(rows)))", "return 0.5 * square", (REPLAY, "-k", "adassp or eptr")),
        ("dpmodels/proof/prove.py", "return square * GRID * _one_sided(relation)", "return square * GRID", (REPLAY, "-k", "gptr or adaops")),
        ("dpmodels/proof/prove.py", "return math.sqrt(8.0) * length * GRID", "return 2.0 * length * GRID", ("tests/unit/proof/test_prove.py",)),
        ("dpmodels/sums/ask.py", "moved = sensitivity(statistic, self._relation, norm)", "moved = sensitivity(statistic, \"add-remove\", norm)", QUERIES),
        ("dpmodels/door.py", "if left and (replied or not any(", "if False and (replied or not any(", ("tests/privacy/test_door_of_a_stage.py",)),
        ("dpmodels/door.py", "if run.float_note and not set", "if False and not set", ("tests/privacy/test_door_of_a_stage.py",)),
        ("dpmodels/core/parallel.py", "lattice = plan.clip / STEPS", "lattice = plan.clip / STEPS / 2.0", ("tests/unit/scoring/test_families.py",)),
        ("dpmodels/scoring/pass_plan.py", "return Read(1 if self.windows.every > 1 else self.every, self.windows)", "return Read(self.every, self.windows)", ("tests/unit/sources/test_coins.py",)),
        ("dpmodels/scoring/pass_plan.py", "return Read(inner=self.every)", "return Read(inner=1)", ("tests/unit/sources/test_coins.py",)),
        ("dpmodels/own/projector.py", "svec(projector(M, k)), bound * factor)", "svec(projector(M, k)), bound)", (REPLAY, "-k", "pca")),
    )
)  # fmt: skip
#: Tables of follow-up, their curves and the log-rank test.
_SURV = "tests/unit/models/survival/"
_OF_SURVIVAL = tuple(
    Mutant(file, old, new, tests)
    for file, old, new, tests in (
        ("dpmodels/proof/prove.py", "apart = math.sqrt(2.0) * added * _ROUNDED", "apart = added", (_SURV + "test_counts.py",)),
        (_M + "survival/curve.py", "1 - before, 1 - before - 0.5 * unit, before.T", "1 - before, 1 - before, before.T", (_SURV + "test_curve.py",)),
        (_M + "survival/curve.py", "return self.greenwood + self.privacy", "return self.greenwood", (_SURV + "test_verbs.py",)),
        (_M + "survival/curve.py", "noise = z * np.sqrt(privacy)", "noise = 0.0 * privacy", (_SURV + "test_curve.py",)),
        ("dpmodels/models/survival/curve.py", "all_d * (all_Y - all_d) / (all_Y - 1.0)", "all_d * 1.0", (_SURV + "test_curve.py",)),
        ("dpmodels/scoring/unit_scales.py", "high = np.where(low, 0.0, histogram)", "high = histogram", ("tests/unit/scoring/test_expansion.py",)),
        ("dpmodels/models/survival/cox.py", "parts = -1.0 / np.log1p(-share) - (1.0 - share) / share", "parts = 1.0 + 0.0 * share", (_SURV + "test_offset.py",)),
        ("dpmodels/scoring/unit_passes.py", "trace = person.sum(square if", "trace = person.sum(square * psi ** 2 if", ("tests/unit/scoring/test_expansion.py",)),
        ("dpmodels/scoring/unit_passes.py", "long = rows * float(self.score.farthest(", "long = 0.2 * float(self.score.farthest(", ("tests/unit/scoring/test_expansion.py",)),
        ("dpmodels/models/survival/cox.py", "np.sum(square) / 4.0", "0.0", (_SURV + "test_concordance.py",)),
        ("dpmodels/models/survival/cox.py", "later += beyond[:, None] + 0.5 * censored", "later += beyond[:, None]", (_SURV + "test_concordance.py",)),
        ("dpmodels/models/survival/cox.py", "math.sqrt(sampling + privacy)", "math.sqrt(privacy)", (_SURV + "test_concordance.py",)),
        ("dpmodels/models/survival/cox.py", "share: ClassVar[float] = 0.05", "share: ClassVar[float] = 0.0", (_SURV + "test_concordance.py",)),
        ("dpmodels/models/survival/cox.py", "noise = CellNoise(layout, float(noisy.sd.flat[0]))", "noise = CellNoise(layout, 1e-9)", (_SURV + "test_concordance.py",)),
        ("dpmodels/scoring/models.py", "(np.bincount(same, part * part) / np.bincount(same))[same]", "part * part", ("tests/unit/scoring/test_linear.py",)),
        ("dpmodels/models/survival/curve.py", "total = (self.V + self.W)[:-1, :-1]", "total = self.V[:-1, :-1]", (_SURV + "test_curve.py",)),
        ("dpmodels/models/survival/table.py", "out + (target - self.totals @ out) @ inverse @ CV", "out", (_SURV + "test_curve.py",)),
    )
)  # fmt: skip
MUTANTS = (*MUTANTS, *_OF_QUERIES, *_OF_SURVIVAL)
#: Designs: clusters, weights, labels.
CLUSTERS = ("tests/privacy/test_clusters.py",)
WEIGHTED = ("tests/unit/models/table/test_weighted.py",)
OF_PEOPLE = ("tests/privacy/test_clusters_of_people.py",)
_C = "dpmodels/scoring/clusters.py"
_CP = "dpmodels/scoring/clusters.py"
_OF_DESIGNS = tuple(
    Mutant(file, old, new, tests)
    for file, old, new, tests in (
        ("dpmodels/proof/prove.py", 'moves = 2.0 if relation == "replace" else 1.0', "moves = 1.0", CLUSTERS),
        ("dpmodels/proof/prove.py", "cluster_move(1.0, s.clip + s.slack, s.dim)", "cluster_move(1.0, 0.5 * s.clip, s.dim)", CLUSTERS),
        ("dpmodels/proof/prove.py", '(4.0 if relation == "replace" else 2.0) * s.clip', "2.0 * cluster_move(1.0, s.clip, s.dim)", CLUSTERS),
        ("dpmodels/proof/prove.py", "return sums * (s.clip if s.several else s.clip + s.slack)", "return s.clip", CLUSTERS),
        ("dpmodels/survey.py", "return rates * np.sqrt(self._bessel() / self.correction) if self.totals else rates", "return rates * np.sqrt(self._bessel()) if self.totals else rates", CLUSTERS),
        ("dpmodels/sums/labels.py", "cluster = cluster * 2.0**self._bits + at", "cluster = cluster * 2.0**self._bits", CLUSTERS),
        (_C, "several = many > 1.0", "several = many > 0.0", CLUSTERS),
        (_C, "noise = sd**2 * float(", "noise = 0.0 * float(", CLUSTERS),
        (_C, "slack = statistic(r, plan.radii(r)).slack", "slack = 0.0", OF_PEOPLE),
        ("dpmodels/proof/prove.py", "return C * (2.0 * B - C)", "return min(C * (2.0 * B - C), B * B / 2.0)", CLUSTERS),
        ("dpmodels/scoring/cluster_plan.py", "B = max(B, C)\n", "B = C / 2.0\n", CLUSTERS),
        ("dpmodels/sums/labels.py", "label = np.where(inside & (label > 0.0), label, 0.0)  # a missing one is none", "label = np.sort(np.where(inside, label, 0.0))", CLUSTERS),
        ("dpmodels/core/means.py", "np.clip(u, 0.0, 1.0)", "u", ("tests/unit/core/test_sets.py",)),
        ("dpmodels/core/means.py", "np.clip(t, -1.0, 1.0, out=z[:-1])", "z[:-1] = t", ("tests/unit/core/test_sets.py",)),
        ("dpmodels/core/tables.py", "np.clip(u.numbers[0], 0.0, 1.0)", "u.numbers[0]", ("tests/unit/core/test_sets.py",)),
        ("dpmodels/core/tables.py", "np.clip(t.numbers, -1.0, 1.0)", "t.numbers", ("tests/unit/core/test_sets.py",)),
        ("dpmodels/core/tables.py", "STEPS - unit_mass))", "2.0 * (STEPS - unit_mass)))", (REPLAY, "-k", "dp_table-joint-weights")),
    )
)  # fmt: skip
MUTANTS = (*MUTANTS, *_OF_DESIGNS)
#: Panels: averages of residuals, effects and intercepts of people.
_RE = ("tests/unit/models/test_random_intercepts.py",)
_P = "dpmodels/models/panel.py"
_OF_PANELS = tuple(
    Mutant(file, old, new, tests)
    for file, old, new, tests in (
        ("dpmodels/proof/prove.py", 'w * (2.0 if relation == "replace" else math.sqrt(3.0))', "w * math.sqrt(3.0)", _RE),
        (_P, "1.0 - share + T * share))", "1.0 - share + 2.0 * share))", _RE),
        (_P, "z = z - part * z_means\n", "z = z - part * z_means * (1.0 - 1e-4)\n", _RE),
        (_P, "out[p:, r:] = -A[1:, 1:]", "pass", _RE),
        (_P, "return 0.0 if self.variances is None else self.variances.share", "return 0.0 if self.variances is None else 0.3", _RE),
        (_P, "2 * M * M * (1 - rho) ** 2", "2 * M * M * (1 + rho) ** 2", _RE),
    )
)  # fmt: skip
MUTANTS = (*MUTANTS, *_OF_PANELS)
#: Local expansions: rule (U), weights and stops that may not see an outcome, what is asked of units.
_ALONE = ("tests/unit/models/test_expansions_alone.py",)
_EXACT = ("tests/unit/models/test_expansions_exact.py",)
_FIVE = ("tests/privacy/test_five_verbs.py",)
_FOLLOWED = (_SURV + "test_follow_up.py",)
_C, _E, _H = "dpmodels/models/choice.py", "dpmodels/models/panel.py", _M + "survival/hazard.py"
_OF_EXPANSIONS = tuple(
    Mutant(file, old, new, tests)
    for file, old, new, tests in (
        # sqrt(2p) -> sqrt 2: one histogram's noise for those of all columns
        ("dpmodels/proof/prove.py", "return _joint_norm(norm, *parts) * _ROUNDED", "return max(parts)", (*_FIVE, "-k", "pay_for_all")),
        # a softmax centred by the block
        # weights and stops that see what happened
        (_E, "w * (weight * (count - n * p))", "w * (np.sqrt(weight) * (count - n * p))", _EXACT),
        (_E, "np.sqrt(weight * n * p)", "np.sqrt(n * p)", _EXACT),
        (_C, "p[k] * (float(k == j) - p[j]) * u", "p[k] * float(k == j) * u", _EXACT),
        (_C, "out[k] = max(out[k], out[k - 1] + APART * (start[k] - start[k - 1]))", "pass", _ALONE),
        (_C, "return min(float(norms.max()), most)", "return float(norms.max())", _ALONE),
        (_C, "return min(float(norms.max()), most)", "return 0.0", _ALONE),
        ("dpmodels/models/choice.py", "max(LEAST_SHARE, released.noise)", "LEAST_SHARE", ("tests/unit/models/test_choice_start.py",)),
        ("dpmodels/scoring/units.py", "max(clip or chosen_clip(lengths, part(share.score), N, p), least)", "clip or chosen_clip(lengths, part(share.score), N, p)", ("tests/unit/models/test_choice_start.py",)),
    )
)  # fmt: skip
MUTANTS = (*MUTANTS, *_OF_EXPANSIONS)
#: Survival that a Cox fit predicts.
_PREDICTED = (_SURV + "test_predicted.py",)
_OFFSET = "dpmodels/models/survival/cox.py"
_OF_PREDICTED = tuple(
    Mutant(file, old, new, tests)
    for file, old, new, tests in (
        (_OFFSET, "errors = np.diag(1.0 / d) + noise.covariance(J)", "errors = np.diag(1.0 / d)", _PREDICTED),
        (_OFFSET, "errors = np.diag(1.0 / d) + noise.covariance(J)", "errors = noise.covariance(J)", _PREDICTED),
        (_OFFSET, "return f * np.exp(-Z @ k),", "return f,", _PREDICTED),
        (_OFFSET, "left = np.eye(line.K) - Z @ ", "left = np.eye(line.K) - 0.0 * Z @ ", _PREDICTED),
        (_M + "survival/cox.py", "hazards *= 1.0 if line.factors is None else line.factors", "pass", _PREDICTED),
        (_M + "survival/cox.py", "inference.sampling + inference.privacy", "inference.sampling", ("-m", "", "tests/statistical/test_predicted_survival.py")),
        ("dpmodels/results/kinds.py", "gradient[:, 1 : p + 1] += X[:, :, None]", "pass", ("-m", "", "tests/statistical/test_predicted_survival.py")),
    )
)  # fmt: skip
MUTANTS = (*MUTANTS, *_OF_PREDICTED)
#: The check of proportional hazards.
_ZPH, _OF_ZPH = _M + "survival/zph.py", (_SURV + "test_zph.py",)
_PRIVATE_ZPH = ("tests/privacy/test_cox_zph.py",)
MUTANTS = (*MUTANTS, *(
    Mutant(_ZPH, old, new, tests)
    for old, new, tests in (
        ("math.sqrt((1.0 + R2) * (1.0 + m2 + light * m2) + light * R2 * m2)", "math.sqrt((1.0 + R2) * m2)", _PRIVATE_ZPH),
        ("return ScoresInBall(self.local.layout.d, self.local.layout.radius)", "return ScoresInBall(self.local.layout.d, 0.5 * self.local.layout.radius)", _PRIVATE_ZPH),
        ("S = s - np.einsum(", "S = s - 0.0 * np.einsum(", _OF_ZPH),
        ("wide = V + of_Q / total * np.eye(p)", "wide = V", _OF_ZPH),
        ("noise = sd**2 * (np.eye(p) + mm)", "noise = 0.0 * (np.eye(p) + mm)", _OF_ZPH),
        ("np.hstack([np.eye(p), g_at * along])", "np.hstack([0.0 * np.eye(p) + np.diag(np.r_[1.0, np.zeros(p - 1)]), g_at * along])", _OF_ZPH),
        ("sure = float(e.sum()) > ", "sure = float(e.sum()) > 0.0 * ", _OF_ZPH),
        ("z * np.minimum(1.0, lay.longest / ", "z * np.minimum(9.0, lay.longest / ", _OF_ZPH),
    )
))  # fmt: skip
#: The law of place: what a row adds depends on no other row. They die by its property test alone.
_LAW = ("tests/privacy/test_law_of_place.py", "-k", "wherever_it_is or moves_no_more")
_E, _P, _SUMS = "dpmodels/sums/products.py", "dpmodels/sums/products.py", "dpmodels/core/parallel.py"
LAW = (
    # a NaN that turns a decision off, and one that spreads
    Mutant(_SUMS, "    return np.asarray(psi * (TOP**2", "    if not long.max(initial=0.0) > TOP**2:\n        return psi\n    return np.asarray(psi * (TOP**2", _LAW),
    Mutant(_SUMS, "            z[:, ~mask] = 0.0\n", "            z[:] = 0.0\n", _LAW),
    Mutant(_E, "        factor[gone] = 0.0\n", "        factor[:] = 0.0\n", _LAW),
    Mutant(_E, "out[~np.isfinite(out)] = 0.0", "out[:] = 0.0", _LAW),
    # a maximum of the block
    Mutant(_E, "w[:, beyond] *= TOP / long", "w[:, beyond] *= TOP / long.max()", _LAW),
    Mutant(_SUMS, "psi * (TOP**2 / np.maximum(long, TOP**2))", "psi * (TOP**2 / max(float(np.nanmax(long)), TOP**2))", _LAW),
    Mutant(_P, "    exponent = longest.view(np.int64) & _EXPONENT\n", "    longest[:] = longest.max()\n    exponent = longest.view(np.int64) & _EXPONENT\n", _LAW),
    # a buffer that is shared with the block before
    Mutant("dpmodels/formula/program.py", "    out[...] = 0.0\n    m = columns.shape[0]", "    m = columns.shape[0]", _LAW),
    # a weight, a cell from the neighbour; a sorted block
    Mutant("dpmodels/core/parallel.py", "factor = psi.numbers[0]\n", "factor = np.roll(psi.numbers[0], 1)\n", _LAW),
    Mutant(_P, "np.take(row, cells, out=image", "np.take(row, np.sort(cells), out=image", _LAW),
    Mutant("dpmodels/sums/cells.py", "        k: Array = lengths.take(cells)\n", "        k: Array = lengths.take(cells)[::-1].copy()\n", _LAW),
    # sums of floats
    Mutant(_E, "    return np.trunc(w, out=w), complete", "    return w, complete", _LAW),
    Mutant(_SUMS, "return integers_of(weighted(z, self.factors(part, length)))", "return weighted(z, self.factors(part, length) / STEPS) * STEPS", _LAW),
)  # fmt: skip
MUTANTS = (*MUTANTS, *LAW)

_LEVELS = ("tests/privacy/test_levels.py",)
_READ = ("tests/privacy/test_cells_by_themselves.py", "tests/privacy/test_cleaned_cells.py", "tests/unit/formula/test_reading.py")
RAW = (
    Mutant("dpmodels/sums/ask.py", "math.sqrt(2.0 * per_unit)", "math.sqrt(2.0)", _LEVELS),
    Mutant("dpmodels/sums/ask.py", "stability_threshold(moved / mechanism.mu, failure, per_unit, most)", "stability_threshold(moved / mechanism.mu, failure, 1, most)", _LEVELS),
    Mutant("dpmodels/privacy/run.py", "/ (k * t)))", "/ k))", _LEVELS),
    Mutant("dpmodels/privacy/run.py", "for t in range(1, max(most, 1) + 1)", "for t in (1,)", _LEVELS),
    Mutant("dpmodels/privacy/run.py", "np.add.at(sums, place, masses)", "sums += counts", _LEVELS),
    Mutant("dpmodels/own/levels.py", "sorted(set(keys))[:most]", "sorted(set(keys))", _LEVELS),
    Mutant("dpmodels/own/levels.py", "math.isqrt((1 << 40) // max(len(values), 1))", "1 << 20", _LEVELS),
    Mutant("dpmodels/own/levels.py", "if key is not None and person >= 0:", "if key is not None:", _LEVELS),
    Mutant("dpmodels/core/means.py", "/ np.maximum(used, 1.0))", "/ 1.0)", ("tests/privacy/test_people_tables.py",)),
    Mutant("dpmodels/core/tables.py", "STEPS - unit_mass))", "STEPS - 0.0 * unit_mass))", ("tests/privacy/test_people_tables.py",)),
    Mutant("dpmodels/levels.py", "stability_threshold(sd, failure, k, most)", "stability_threshold(sd, failure, 1, most)", _LEVELS),
    Mutant("dpmodels/own/levels.py", "or text in missing", "", _LEVELS),
    Mutant("dpmodels/formula/spelled.py", "out[key] = code if out.get(key, code) == code else None", "out[key] = code", _READ),
    Mutant("dpmodels/formula/reading.py", "is_code = np.isin(numbers, missing_numbers(variable))", "is_code = np.isin(numbers, []) ", _READ),
    Mutant("dpmodels/formula/reading.py", " & ~np.isin(ticks, self.missing)", "", _READ),
    Mutant("dpmodels/sources/lines.py", "read = read if len(head) <= room else head[:room] + feed + tail", "read = read", ("tests/unit/sources/test_raw_files.py",)),
)  # fmt: skip
_EFFECT = _M + "treatment/rows.py"
_EFFECTS = ("tests/unit/models/treatment/test_sensitivity.py", "tests/unit/models/treatment/test_estimator.py", "-k", "not cover")
EFFECTS = (
    Mutant("dpmodels/core/units.py", "mass = end_of_numbers(u / np.repeat(many, person.counts), low=0.0)", "mass = end_of_numbers(u, low=0.0)", _EFFECTS),
    Mutant("dpmodels/core/units.py", "/ np.maximum(own_sum(present, person.counts), 1.0))", "/ 1.0)", _EFFECTS),
    Mutant("dpmodels/core/units.py", "steps = end_along(part, np.sqrt(squares(part)), radius)", "steps = end_along(part, np.sqrt(squares(part[:1])), radius)", _EFFECTS),
    Mutant("dpmodels/core/units.py", "sums.add(np.array([octaves(x * x)", "sums.add(np.array([2 * octaves(x * x)", _EFFECTS),
    Mutant(_EFFECT, "phi = stack(m1 + treated * r1, m0 + control * r0)", "phi = stack(m1 + treated * r1, m0)", _EFFECTS),
    Mutant(_EFFECT, "stack(-treated * r1 * (1.0 - e), control * r0 * e)", "stack(treated * r1 * (1.0 - e), control * r0 * e)", _EFFECTS),
    Mutant(_M + "treatment/facts.py", "self.factors(half if in_fit else 1.0 - half)", "self.factors(half)", _EFFECTS),
    Mutant("dpmodels/sums/ask.py", "return f\"{self.label}: {step}\"", "return step", _EFFECTS),
)  # fmt: skip
MUTANTS = (*MUTANTS, *RAW, *EFFECTS)

#: Sets of units, clusters, follow-up, grids and tallies, and words of a formula.
MUTANTS = (
    *MUTANTS,
    Mutant("dpmodels/core/tallies.py", "numbers = end_of_numbers(t.numbers[0][present], steps=self.steps)", "numbers = np.trunc(t.numbers[0][present] * STEPS)", ("tests/privacy/test_queries.py", "-k", "held_out")),
    Mutant("dpmodels/sums/rowmap.py", "trace = np.add.reduceat(np.ceil(part, out=part), block.starts)", "trace = np.maximum.reduceat(part, block.starts)", ("tests/privacy/test_people.py",)),
    Mutant("dpmodels/core/units.py", "return integers_of(end_along(scores, size, clip, size)", "return integers_of(2.0 * end_along(scores, size, clip, size)", ("tests/privacy/test_people.py",)),
    Mutant("dpmodels/core/units.py", "sums.scale += int(np.minimum(part, STEPS).sum())", "sums.scale += int(part.sum())", ("tests/unit/scoring/test_expansion.py", "tests/unit/scoring/test_unit_engine.py")),
    Mutant("dpmodels/core/units.py", "v *= factors(length, block, plan.information)[0]", "v *= STEPS / plan.information", ("tests/privacy/test_people.py",)),
    Mutant("dpmodels/core/sets.py", "share = end_of_numbers(1.0 / np.maximum(many, 1.0), low=0.0)", "share = STEPS * np.ones_like(many)", ("tests/privacy/test_people.py",)),
    Mutant("dpmodels/core/units.py", "own_sum(v[: self.shape[0]] ** 2, counts)", "v[: self.shape[0]] ** 2", ("tests/privacy/test_people.py",)),
    Mutant("dpmodels/scoring/units.py", "units.UnitPass(planned, r, turn if k > 1 else None)", "units.UnitPass(planned, r, None)", ("tests/unit/scoring/test_expansion.py", "tests/unit/scoring/test_unit_engine.py")),
    Mutant("dpmodels/formula/categories.py", "out: Any = -1\n        for code, level in enumerate(values)", "out: Any = 0\n        for code, level in enumerate(values)", ("tests/unit/formula/test_listed_levels.py",)),
    Mutant("dpmodels/formula/categories.py", "return Cat(levels, lambda env: of_code(table", "return Cat(cat.levels, lambda env: of_code(table", ("tests/unit/formula/test_listed_levels.py",)),
    Mutant("dpmodels/core/grids.py", "    below = q.denominator * (up_to - counts) - target", "    target -= target % q.denominator\n    below = q.denominator * (up_to - counts) - target", ("tests/privacy/test_people_tables.py", "-k", "many_groups")),
    Mutant("dpmodels/core/grids.py", "return np.maximum(np.maximum(below, above), 0)", "return 2 * np.maximum(np.maximum(below, above), 0)", ("tests/privacy/test_replay.py", "-k", "dp_quantile")),
    Mutant("dpmodels/core/grids.py", "inside = np.maximum(np.maximum(below, above), 0)", "inside = 2 * np.maximum(np.maximum(below, above), 0)", ("tests/unit/models/table/test_quantile.py",)),
    Mutant("dpmodels/core/grids.py", "[[max(0, target)], inside]", "[[max(0, 2 * target)], inside]", ("tests/unit/models/table/test_quantile.py",)),
    Mutant("dpmodels/core/followup.py", "factor[long] = np.sqrt(most / square[long]) * _BELOW", "pass", ("tests/unit/models/survival/test_counts.py",)),
    Mutant("dpmodels/core/followup.py", "most = 2 * table.episodes * table.levels\n        factor", "most = 4 * table.episodes * table.levels\n        factor", ("tests/unit/models/survival/test_counts.py",)),
    Mutant("dpmodels/core/followup.py", "keep = place[separate_episodes(person[place], start[place], stop[place])]", "keep = place", ("tests/unit/models/survival/test_counts.py",)),
    Mutant("dpmodels/core/followup.py", "np.lexsort((group, event, stop, start, person))", "np.lexsort((start, person))", ("tests/unit/models/survival/test_counts.py",)),
    Mutant("dpmodels/core/followup.py", "(people - sums.arrays[1]) * _ONE", "0", ("tests/unit/models/survival/test_verbs.py",)),
    Mutant("dpmodels/models/survival/table.py", "ends = where(end < 0, layout.G * runs + group, group * runs + end)", "ends = group * runs + np.maximum(end, 0)", ("tests/unit/models/survival/test_counts.py",)),
    Mutant("dpmodels/formula/survival.py", "happened = where(stop > time.interval[1], 0.0, happened)", "pass", ("tests/unit/formula/test_survival.py",)),
    Mutant("dpmodels/formula/survival.py", "raw = env.unclipped()", "raw = env", ("tests/unit/formula/test_survival.py",)),
    Mutant("dpmodels/formula/survival.py", "ok = ok & (entry >= 0.0) & (entry < stop) & (begin < ended)", "ok = ok & (begin < stop)", ("tests/unit/formula/test_survival.py",)),
    Mutant("dpmodels/core/clusters.py", "length = np.add.reduceat(size, starts)", "length = np.maximum.reduceat(size, starts)", ("tests/privacy/test_clusters_of_people.py",)),
    Mutant("dpmodels/core/clusters.py", "room = np.maximum(clip - many * slack, 0.0) * _ROUNDED_DOWN", "room = np.full(len(many), clip)", ("tests/privacy/test_clusters_of_people.py",)),
    Mutant("dpmodels/core/clusters.py", "order = np.lexsort((label, person))", "order = np.argsort(person, kind='stable')", ("tests/privacy/test_clusters_of_people.py",)),
    Mutant("dpmodels/core/clusters.py", "clip=radii.clip / radii.bound, several=people)", "clip=radii.clip / radii.bound)", ("tests/privacy/test_clusters_of_people.py",)),
    Mutant("dpmodels/models/table/weighted_quantiles.py", "(places[j] <= k) - q)", "(places[j] < k) - q)", ("tests/unit/test_survey.py",)),
    Mutant("dpmodels/models/table/weighted.py", "parts.append(mine - self.middle[at])", "parts.append(mine * 1.0)", ("tests/unit/test_survey.py",)),
    Mutant("dpmodels/core/clusters.py", "np.divide(most, length, out=factor, where=length > most)", "pass", ("tests/privacy/test_clusters.py",)),
    Mutant("dpmodels/core/units.py", "np.clip(x, -q, q)", "x", ("tests/unit/models/test_random_intercepts.py",)),
    Mutant("dpmodels/core/units.py", "e, counts = end_of_numbers(residual) / STEPS, person.counts", "e, counts = residual, person.counts", ("tests/unit/models/test_random_intercepts.py",)),
    Mutant("dpmodels/core/units.py", "(total * total - square) / (many * (many - 1.0))", "(total * total - square) / many", ("tests/unit/models/test_random_intercepts.py",)),
    Mutant("dpmodels/core/units.py", "total * total - square", "total * total", ("tests/unit/models/test_random_intercepts.py",)),
    Mutant("dpmodels/core/units.py", "several = T > 1.5", "several = T > 0.5", ("tests/unit/models/test_random_intercepts.py",)),
    Mutant("dpmodels/models/panel.py", "residual = residual - part * person.mean(residual, present)", "pass", ("tests/unit/models/test_random_intercepts.py",)),
    Mutant("dpmodels/models/panel.py", "s = person.sum(usable * 1.0) * self.model.mean", "s = person.sum(u[0] * usable + 7.0) * self.model.mean", ("tests/unit/models/test_expansions_alone.py",)),
    Mutant("dpmodels/models/panel.py", "(w - person.sum(w * p)) * np.sqrt", "w * np.sqrt", ("tests/unit/models/test_expansions_alone.py",)),
    Mutant("dpmodels/models/panel.py", "usable = complete(u) & (y >= 0.0)", "usable = complete(u)", ("tests/unit/models/test_expansions_alone.py",)),
    Mutant("dpmodels/models/survival/hazard.py", "where(stop >= T, D, 0.0)", "D", ("tests/unit/models/survival/test_follow_up.py",)),
    Mutant("dpmodels/models/survival/hazard.py", "D = where(counted & (high >= T), rows[places.event], 0.0)", "D = where(counted, rows[places.event], 0.0)", ("tests/unit/models/survival/test_follow_up.py",)),
    Mutant("dpmodels/models/choice.py", "valid = (y >= 0.0) & (y <= classes.K - 1.0) & (y == np.floor(y)) & complete(u)", "valid = (y >= 0.0) & (y <= classes.K - 1.0) & complete(u)", ("tests/unit/models/test_expansions_alone.py",)),
    Mutant("dpmodels/models/choice.py", "-(ends[k + 1] - ends[k]) * u[1:]", "-ends[k + 1] * u[1:]", ("tests/unit/models/test_expansions_exact.py",)),
    Mutant("dpmodels/core/units.py", "scores_in_ball(scores, size, self.unit)", "scores_in_ball(scores, size, 1.2 * self.unit)", ("tests/unit/models/survival/test_zph.py",)),
    Mutant("dpmodels/models/survival/zph.py", "where(which == j, D, 0.0) - m", "where(which == j, D, 0.0) - 0.9 * m", ("tests/unit/models/survival/test_zph.py",)),
    Mutant("dpmodels/models/survival/zph.py", "return where(stratum == stratum, np.ones(self.model.timeline.K), 1.0)", "return where(stratum == stratum, np.zeros(self.model.timeline.K), 0.0)", ("tests/unit/models/survival/test_zph.py", "|", "tests/privacy/test_cox_zph.py")),
    Mutant("dpmodels/opaque.py", "if x.ndim > 1 or x.dtype.kind", "if x.dtype.kind", ("tests/unit/core/test_rows.py",)),
    Mutant("dpmodels/core/own.py", "*reversed(keys), person)", "*reversed(keys), 0 * person)", ("tests/unit/core/test_rows.py",)),
)  # fmt: skip
