"""Private logistic regression on credit default and Adult: AUC and log-loss against eps.

Ranges are documented codes and amounts rounded outwards; no tuning; replace-one, delta = 1e-6;
70 % train, one split a run (seeds 0..runs-1). Standard errors are bought (inference=True).

    DPMODELS_DATA=... python benchmarks/glm_accuracy.py [runs]
"""

import sys
import warnings

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, write
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dpmodels as dp

DATA = data_folder()
OUT = RESULTS / "glm_accuracy.md"
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
EPS = (0.1, 0.25, 0.5, 1, 2, 4, 8)


def credit():
    data = pd.read_csv(DATA / "credit_default.csv.gz")
    ranges = {"LIMIT_BAL": (0, 1_000_000), "AGE": (18, 90)}
    for name in data.columns:
        if name.startswith("PAY_AMT"):
            ranges[name] = (0, 2_000_000)
        elif name.startswith("PAY_"):
            ranges[name] = (-2, 9)
        elif name.startswith("BILL"):
            ranges[name] = (-500_000, 2_000_000)
    schema = dp.Schema(
        **{k: dp.Real(*v) for k, v in ranges.items()},
        SEX=dp.Levels([1, 2]),
        EDUCATION=dp.Levels([0, 1, 2, 3, 4, 5, 6]),
        MARRIAGE=dp.Levels([0, 1, 2, 3]),
        default=dp.Binary(),
    )
    return data, "default", schema, [c for c in data.columns if c != "default"]


def adult():
    data = pd.read_csv(DATA / "adult.csv.gz")
    data["rich"] = (data.income == ">50K").astype(int)
    ranges = {
        "age": (17, 90), "fnlwgt": (0, 1_500_000), "education_num": (1, 16),
        "capital_gain": (0, 100_000), "capital_loss": (0, 5_000), "hours_per_week": (1, 99),
    }  # fmt: skip
    data = data[["rich", *ranges]]
    schema = dp.Schema(**{k: dp.Real(*v) for k, v in ranges.items()}, rich=dp.Binary())
    return data, "rich", schema, list(ranges)


def non_private(train, test, response, predictors):
    levels = [c for c in predictors if c in ("SEX", "EDUCATION", "MARRIAGE")]
    both = pd.get_dummies(pd.concat([train, test])[predictors], columns=levels, drop_first=True)
    X, T = both.iloc[: len(train)].astype(float), both.iloc[len(train) :].astype(float)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1e6, max_iter=2000))
    p = model.fit(X, train[response]).predict_proba(T)[:, 1]
    return roc_auc_score(test[response], p), log_loss(test[response], p)


def main():
    warnings.simplefilter("ignore")
    lines = [
        "# Logistic regression: AUC and log-loss on 30 % test rows",
        "",
        f"Medians over {RUNS} runs (split and noise seeds 0..{RUNS - 1}); replace-one,",
        "delta = 1e-6, declared ranges only, all defaults (standard errors are bought).",
        "",
        "| data | eps | AUC | log-loss | log-loss - non-private |",
        "|---|---|---|---|---|",
    ]
    for name, load in (("credit default", credit), ("adult", adult)):
        data, response, schema, predictors = load()
        formula = f"{response} ~ " + " + ".join(predictors)
        results, base = {e: [] for e in EPS}, []
        for run in range(RUNS):
            index = np.random.default_rng(run).permutation(len(data))
            cut = int(0.7 * len(data))
            train, test = data.iloc[index[:cut]], data.iloc[index[cut:]]
            base.append(non_private(train, test, response, predictors))
            for eps in EPS:
                fit = dp.dp_glm(formula, train, eps=eps, delta=1e-6, schema=schema, seed=run)
                p = fit.predict(test).to_numpy()
                results[eps].append((roc_auc_score(test[response], p), log_loss(test[response], p)))
        free = np.median(base, 0)
        for eps in EPS:
            auc, loss = np.median(results[eps], 0)
            extra = np.median(np.array(results[eps])[:, 1] - np.array(base)[:, 1])
            lines.append(f"| {name} | {eps} | {auc:.4f} | {loss:.4f} | {extra:+.4f} |")
            print(lines[-1], flush=True)
        lines.append(f"| {name} | non-private | {free[0]:.4f} | {free[1]:.4f} | |")
        print(lines[-1], flush=True)
    write(OUT, lines)


if __name__ == "__main__":
    main()
