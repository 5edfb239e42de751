"""Draw the figures of the pages and of the README: ``python docs/figures/make.py``.

Every number is read from ``benchmarks/results/`` or comes from a seeded fit of the bundled data.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpmodels as dp

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))
from common import kept  # noqa: E402

mpl.rcParams["svg.hashsalt"] = "dpmodels"  # a rebuild changes what changed
#: method of error_against_eps -> (label, style)
SHOWN = {
    "ssp": ("dp_ols, ranges declared (default)", "C0-o"),
    "pmt": ("dp_ols, public rows (default)", "C2-o"),
    "eptr": ("ePTR as a start", "C6-^"),
    "gptr": ("posterior draw as a start", "C9-v"),
    "drcl": ("noised rows (a value protected)", "C8:s"),
    "adassp": ("AdaSSP (Wang 2018)", "C1--s"),
    "pmt_paper": ("public moments as published", "C3--s"),
    "dpgd": ("noisy gradient descent", "C4--^"),
    "functional": ("functional mechanism", "C5--v"),
    "outpert": ("output perturbation", "C7--d"),
}


def error_against_eps() -> plt.Figure:
    """Median error against eps: the default beside what others proposed."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2))
    titles = (
        "simulated, n = 3000: error of coefficients",
        "wine, n = 6197: error of fitted values",
    )
    for ax, table, title in zip(axes, kept("error_against_eps")[:2], titles, strict=True):
        eps = [float(c) for c in table.columns[1:13]]
        rows = table.set_index(table.columns[0])
        for method, (label, style) in SHOWN.items():
            medians = pd.to_numeric(rows.loc[method].iloc[:12], errors="coerce")  # n/a: no estimate
            ax.plot(eps, medians, style, ms=4, label=label)
        ax.set(xscale="log", yscale="log", xlabel="eps (delta = 1e-6)", title=title)
        ax.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        ax.minorticks_off()
        ax.title.set_fontsize(10)
    axes[0].set_ylabel("median error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncol=4, fontsize=8)
    figure.tight_layout(rect=(0, 0.15, 1, 1))
    return figure


def over_designs(name: str) -> pd.DataFrame:
    """Return the last table of a coverage benchmark (one row a cell, over designs), as numbers."""
    table = kept(name)[-1]
    table = table[table.iloc[:, 0] == "all"]
    return table[["n", "eps", "coverage", "median width"]].astype(float)


def coverage() -> plt.Figure:
    """Coverage and width of intervals against eps, 36 models of 23 tables."""
    table = over_designs("real_responses")
    table = table[table.n == 10_000].sort_values("eps")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    left.axhline(0.95, color="0.6", lw=1)
    left.plot(table.eps, table.coverage, "C0o-")
    left.set(xlabel="eps", ylabel="coverage of 95 % intervals", ylim=(0.9, 1), xscale="log")
    right.axhline(1, color="0.6", lw=1)
    right.plot(table.eps, table["median width"], "C0o-")
    right.set(xlabel="eps", ylabel="median width, non-private = 1", ylim=(0, 5), xscale="log")
    for ax in (left, right):
        ax.set_xticks(table.eps, [f"{e:g}" for e in table.eps])
        ax.minorticks_off()
    figure.tight_layout()
    return figure


def two_parts() -> plt.Figure:
    """Draw the fit of the start page: sampling error inside the total error."""
    data = dp.datasets.rand_hie()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.DPModelsWarning)  # seeded: the figure repeats
        fit = dp.dp_ols("log1p(mdvis) ~ lncoins + physlm + disea", data, eps=1, delta=1e-6, seed=1)
    figure = fit.plot(labels=None).figure
    figure.set_size_inches(5.4, 3)  # read on a phone, too
    return figure


def attacker() -> plt.Figure:
    """Draw the gain of an attacker from Gaussian noise of mu = 0.25."""
    return dp.explain(mu=0.25, delta=1e-6).plot().figure


def event_study() -> plt.Figure:
    """Draw the effects of made events by period, with a joint band (seeded)."""
    rng = np.random.default_rng(1)
    people, years = 3000, range(2001, 2009)
    d = pd.DataFrame({"id": np.repeat(np.arange(people), len(years)), "year": [*years] * people})
    event = np.repeat(rng.choice([2004, 2005, 2006], people), len(years))
    d["period"] = np.clip(d["year"] - event, -3, 3)
    d["y"] = 0.4 * np.maximum(d["period"] + 1, 0) + rng.normal(0, 1.0, len(d))
    d["y"] += np.repeat(rng.normal(0, 1, people), len(years))
    schema = dp.Schema(
        y=dp.Real(-5, 7, label="outcome"), year=dp.Levels([*years]),
        period=dp.Levels([*range(-3, 4)], label="years since the event"),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
        fit = dp.dp_feols("y ~ C(period) | id + year", d, unit="id", eps=8, delta=1e-6,
                          schema=schema, seed=1)  # fmt: skip
    return dp.iplot(fit).figure


def forest() -> plt.Figure:
    """Draw the fit of the start page as a forest plot with its numbers."""
    data = dp.datasets.rand_hie()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
        fit = dp.dp_ols("log1p(mdvis) ~ lncoins + physlm + disea", data, eps=1, delta=1e-6, seed=2)
    return dp.coef_plot(fit, table=True).figure


def incidence() -> plt.Figure:
    """Draw the guide's cumulative incidences and adjusted curves of made people (seeded)."""
    text = (HERE.parent / "guides" / "competing-risks.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.DPModelsWarning)
        for block in text.split("```python\n")[1:]:
            seeded = block.split("```")[0].replace("delta=1e-6", "delta=1e-6, seed=1")
            exec(seeded, names)  # noqa: S102
        figure, axes = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")
        names["fit"].plot(axes[0])  # type: ignore[attr-defined]
        names["curves"].plot(axes[1])  # type: ignore[attr-defined]
    axes[0].set_title('dp_survfit(..., cause="all")', fontsize="small")
    axes[1].set_title('adjusted_curves("arm", over=table)', fontsize="small")
    return figure


FIGURES = {
    "incidence": incidence,
    "event_study": event_study,
    "forest": forest,
    "attacker": attacker,
    "error_against_eps": error_against_eps,
    "coverage": coverage,
    "two_parts": two_parts,
}


def main() -> None:
    """Write every figure beside this file."""
    for name, draw in FIGURES.items():
        figure = draw()
        figure.savefig(HERE / f"{name}.svg", metadata={"Date": None}, facecolor="white")
        plt.close(figure)
        print(name)


if __name__ == "__main__":
    main()
