"""The golden corpus: what seeded calls release, as committed fingerprints; and what moved.

``python -m tests.golden.corpus`` runs every call and names the lines that moved, by how much;
``--write`` stores them. Each line is a call (verb, method, relation, unit, source) and one thing of
it: the draws of its noise in order and size, the exact sums and sensitivities of its private stage,
what was released, covariances and bias bounds, notes, the ledger, the printed summary.

Words are hashed without their numbers. Numbers are kept as their count, their length and one
projection on fixed directions, and compared to ``TOLERANCE`` of that length: another BLAS, numpy or
processor gives the same line; a sum that is off by a millionth does not.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import re
import sys
import tempfile
import unittest.mock
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

STORED = Path(__file__).with_name("corpus.json")
TOLERANCE = 1e-7
SEED = 11
#: What is left out: (part of a name, line) -> why another processor moves it.
FRAGILE = {
    ("dp_quantreg-drcl", "released"): "a minimum without curvature, found by iteration",
    ("dp_quantreg-sdrcl", "released"): "the same",
    ("dp_quantreg-sl", "released"): "the same",
    ("dp_ols-ssp-default-uniform", "sums"): "a last digit of a released factor moves a lattice step",
    ("people: effects", "sums"): "eigenvectors of a released matrix, known up to their sign",
    ("people: random intercepts", "sums"): "the same",
    ("people: random intercepts", "draws"): "the same: samplers refuse other proposals",
}
#: Sources beside the frame, for the first call of every method.
SOURCES = ("parquet", "csv", "dask")
#: Resamples for errors of fits to noised rows, 40 by rule: what each does is the same.
RESAMPLES = 8


def words(*texts):
    """Return the hash of texts, numbers left out."""
    found = "\n".join(re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?|\b(nan|inf)\b", "#", str(t)) for t in texts)
    return hashlib.sha256(re.sub(r"[\s.=-]+", " ", found).encode()).hexdigest()[:12]


def numbers(*arrays):
    """Return (count, length, projection) of numbers; a number that is none counts in the first."""
    flat = [np.ravel(np.asarray(a, dtype=object)).astype(float) for a in arrays if a is not None]
    # every array has its own size: a small one must not vanish beside a large one
    flat = [a[np.isfinite(a)] / max(1e-12, np.abs(a[np.isfinite(a)]).max(initial=0.0)) * (
        1.0 + math.log10(max(1e-12, np.abs(a[np.isfinite(a)]).max(initial=1e-12))) / 16)
        for a in flat]  # fmt: skip
    x = np.concatenate([np.zeros(0), *flat])
    places = np.cos(1.7 * np.arange(len(x)) + 0.3)
    return [len(x), float(f"{np.linalg.norm(x):.10g}"), float(f"{x @ places:.10g}")]


def same(a, b):
    """Whether two lines are one."""
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a == b
    return a[0] == b[0] and max(abs(a[1] - b[1]), abs(a[2] - b[2])) <= TOLERANCE * max(1.0, a[1])


def cases():
    """Yield (name, case of the replay tests, person case or None)."""
    from tests.privacy import test_people, test_replay

    for name, case in zip(test_replay.NAMES, test_replay.CASES, strict=True):
        yield name, case, None
    for name, found in test_people.CASES.items():
        yield f"people: {name}", None, found


def table_of(case, plan):
    """Return columns of a replay case, with one missing row and one far out."""
    from tests.privacy.test_replay import tables, with_last

    data, rows = tables(case, plan)
    wild = [row for row in rows if any(v is None or (isinstance(v, float) and not -20 < v < 20) for v in row)]
    return with_last(data, wild[0] if wild else rows[0])


def people_table(name, found):
    """Return (plan, columns, arguments of the call) of a case of people."""
    from tests.privacy import test_people as people

    verb, options, schema = found
    n = 60 if name == "people: bought" else people.N
    ids, cells = people.base(np.random.default_rng(5), n)
    eps = 60.0 if name == "people: bought" else 4.0
    plan = people.plan_of(verb, schema, eps=eps, n=n, **options)
    formula = options.get("formula", "y + a ~ 1" if verb in ("dp_mean", "dp_moments") else "y ~ a + b")
    rest = {k: v for k, v in options.items() if k != "formula"}
    import dpmodels as dp

    kinds = {k: dp.Real(*v) if isinstance(v, tuple) else v for k, v in schema.items()}
    arguments = {"unit": "id", "rows_per_unit": 3, "eps": eps, "delta": 1e-4, "schema": dp.Schema(**kinds), **rest}
    if options.get("relation") != "add-remove":
        arguments["units"] = n
    return plan, people.table(ids, cells, schema is people.EVENT), verb, formula, arguments


def recording():
    """Return a source of seeded noise that writes down what is drawn."""
    from dpmodels.privacy.noise import SeededNoise

    class Recording(SeededNoise):
        def __init__(self, seed):
            super().__init__(seed)
            self.drawn = []

    def noted(name):
        own = getattr(SeededNoise, name)

        def draw(self, *given, **named):
            sizes = [g if isinstance(g, int) else np.shape(g) for g in given]
            self.drawn.append(f"{name}: {sizes}")
            return own(self, *given, **named)

        return draw

    for name in dir(SeededNoise):
        if not name.startswith("_") and callable(getattr(SeededNoise, name)):
            setattr(Recording, name, noted(name))
    return Recording(SEED)


def stage_lines(plan, data):
    """Return the lines of one private stage: order, sizes and kinds; exact sums; sensitivities."""
    from tests.replaying import replay_stage

    drawn = replay_stage(plan, data, SEED)
    values = [list(d.value.values()) if isinstance(d.value, dict) else d.value for d in drawn.values()]
    return {
        "steps": words(*(f"{d.name}|{d.kind}" for d in drawn.values())),
        "sums": numbers(*values),
        "sensitivities": numbers([d.sensitivity for d in drawn.values()], *(d.weights for d in drawn.values())),
    }  # fmt: skip


def leaves(x, path=""):
    """Yield (path, value) of nested lists and mappings."""
    if isinstance(x, dict):
        for k, v in x.items():
            yield from leaves(v, f"{path}.{k}")
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from leaves(v, path)
    else:
        yield path, x


def call_lines(verb, formula, source, arguments):
    """Return the lines of one call through its verb."""
    import dpmodels as dp
    from dpmodels._testing import noise_source

    function, noise = getattr(dp, verb), recording()
    arguments = dict(arguments)
    if "method" not in inspect.signature(function).parameters or verb == "dp_polr":
        method = arguments.pop("method", None)  # there is one, or it goes by another name
        if verb == "dp_gptr":
            arguments["test"] = method
    if verb in ("dp_eptr", "dp_gptr"):  # a user's own functions stand first
        arguments |= {"formula": formula, "data": source}
        given = ()
    else:
        given = (formula, source)
    with warnings.catch_warnings(record=True) as seen, noise_source(noise):
        warnings.simplefilter("always")
        fit = function(*given, **arguments)
    found = json.loads(fit.to_json())
    del found["checksum"]  # of all digits: another processor has others
    del found["dpmodels"]  # a release of a version moves no line
    groups = {"released": [], "words": []}
    for path, v in leaves(found):
        if isinstance(v, bool) or v is None or isinstance(v, str):
            groups["words"].append(f"{path}={v}")
        else:
            key = "covariances" if "cov" in path else "bias" if re.search("bias|allow|tail", path) else "released"
            groups.setdefault(key, []).append(v)
    out = {key: numbers(v) for key, v in groups.items() if key != "words"}
    out["notes"] = words(*groups["words"])
    out["ledger"] = words(fit.ledger)
    summary = fit.summary()
    out["summary"] = words(summary.as_text(96) if hasattr(summary, "as_text") else summary)
    out["warnings"] = words(*(w.message for w in seen))
    out["draws"] = hashlib.sha256("\n".join(noise.drawn).encode()).hexdigest()[:12]
    return out


def written(frame, kind, folder):
    """Return a frame as another source."""
    if kind == "csv":
        frame.to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    if kind == "parquet":
        frame.to_parquet(folder / "t.parquet", index=False, row_group_size=7)
        return folder / "t.parquet"
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=3)


def lines(only=""):
    """Return every line of the corpus, by name."""
    with unittest.mock.patch("dpmodels.models.noised.objective.RESAMPLES", RESAMPLES):
        return _lines(only)


def _lines(only):
    out, seen = {}, set()
    for name, case, people in cases():
        if only not in name:
            continue
        if people is None:
            plan = case.plan()
            data, verb, formula = table_of(case, plan), case.verb, case.formula
            arguments = {"schema": case.schema, "eps": case.eps, "delta": case.delta, "method": case.method, **case.options}
            if case.method in ("drcl", "sdrcl", "sl"):  # small tables: refused else
                arguments["accept_no_estimate"] = True
        else:
            plan, data, verb, formula, arguments = people_table(name, people)
        out[name] = stage_lines(plan, data)
        frame = pd.DataFrame(data)
        kinds = ["frame"]
        if (verb, plan.request.method.name) not in seen or people:
            kinds += SOURCES
        seen.add((verb, plan.request.method.name))
        with tempfile.TemporaryDirectory() as folder:
            for kind in kinds:
                try:
                    source = frame if kind == "frame" else written(frame, kind, Path(folder))
                except ImportError:
                    continue  # no Dask here
                try:
                    out[f"{name} @ {kind}"] = call_lines(verb, formula, source, arguments)
                except Exception as error:  # a refusal is behaviour, too
                    out[f"{name} @ {kind}"] = {"refused": words(type(error).__name__, error)}
                    if kind == "frame":
                        print(name, type(error).__name__, str(error)[:300])
    for (part, what), name in itertools.product(FRAGILE, out):
        if name.startswith(part):
            out[name].pop(what, None)
    return out


def moved(old, new):
    """Yield a sentence for each line that is not what it was."""
    for name in itertools.chain(old, (k for k in new if k not in old)):
        if name not in new:
            if not name.endswith("@ dask"):
                yield f"{name}: gone"
        elif name not in old:
            if not name.endswith("@ dask"):  # stored where there was no Dask
                yield f"{name}: new"
        else:
            for what in sorted(old[name].keys() | new[name].keys()):
                a, b = old[name].get(what), new[name].get(what)
                if not same(a, b):
                    yield f"{name}: {what} moved, {a} -> {b}"


def stored():
    """Return the committed lines."""
    return json.loads(STORED.read_text())


def store(found):
    """Write them, one line each."""
    rows = [f" {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in sorted(found.items())]
    STORED.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    now = lines()
    if "--write" in sys.argv:
        store(now)
    else:
        gone = list(moved(stored(), now))
        print("\n".join(gone) or "nothing moved")
        sys.exit(bool(gone))
