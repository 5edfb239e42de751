# ruff: noqa
"""Public names with their types, written by .ci/stub.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpmodels.results.fit import Averages
from dpmodels.results.fit import Classifier
from dpmodels.results.fit import Components
from dpmodels.results.fit import Curve
from dpmodels.results.fit import Estimates
from dpmodels.results.fit import LinearRegression
from dpmodels.results.fit import Moments
from dpmodels.results.fit import QuantileRegression
from dpmodels.results.fit import Quantiles
from dpmodels.results.fit import Regression
from dpmodels.results.fit import SurvivalCurves
from dpmodels.results.fit import Tabulation
from dpmodels.results.fit import TestResult
from dpmodels.results.fit import TreatmentEffect
from dpmodels.results.kinds import Choice
from dpmodels.results.kinds import Effects
from dpmodels.results.kinds import Hazards
from dpmodels.results.kinds import OrderedChoice
from dpmodels.registry import Backend as Backend
from dpmodels.variables import Binary as Binary
from dpmodels.privacy.budget import Budget as Budget
from dpmodels.variables import Count as Count
from dpmodels.variables import Date as Date
from dpmodels.sources.executors import Elsewhere as Elsewhere
from dpmodels.models.noised.losses import IndexLoss as IndexLoss
from dpmodels.variables import Levels as Levels
from dpmodels.registry import Method as Method
from dpmodels.models.noised.table import NoisyTable as NoisyTable
from dpmodels.registry import Option as Option
from dpmodels.variables import Ordered as Ordered
from dpmodels.models.linear.scored import PublicMoments as PublicMoments
from dpmodels.variables import Real as Real
from dpmodels.formula.schema import Schema as Schema
from dpmodels.study import Study as Study
from dpmodels.survey import Survey as Survey
from dpmodels.results.side_by_side import anova as anova
from dpmodels.results.effects import balanced_error as balanced_error
from dpmodels.models.selection import check_safety as check_safety
from dpmodels.results.forest import coef_plot as coef_plot
from dpmodels.results.synthetic import combine as combine
from dpmodels.results.effects import confusion_table as confusion_table
from dpmodels.sources.executors import connect as connect
from dpmodels.formula.describe import describe as describe
from dpmodels.api.multivariate import dp_iv as dp_iv
from dpmodels.api.levels import dp_levels as dp_levels
from dpmodels.api.custom import dp_pate as dp_pate
from dpmodels.api.releases import dp_release as dp_release
from dpmodels.api.custom import dp_select as dp_select
from dpmodels.api.custom import dp_vote as dp_vote
from dpmodels.results.side_by_side import etable as etable
from dpmodels.gain import explain as explain
from dpmodels.api.inspected import inspect_source as inspect_source
from dpmodels.results.event_study import iplot as iplot
from dpmodels.results.fit import load as load
from dpmodels.api.releases import load_release as load_release
from dpmodels.results.meta import meta as meta
from dpmodels.registry import methods as methods
from dpmodels.results.side_by_side import modelsummary as modelsummary
from dpmodels.sources.executors import partial_sums as partial_sums
from dpmodels.api.call import per_person as per_person
from dpmodels.api.call import plan as plan
from dpmodels.api.pool import pool as pool
from dpmodels.sources.files import read_csv as read_csv
from dpmodels.registry import register_method as register_method
from dpmodels.formula.words import register_rowwise as register_rowwise
from dpmodels.api.call import show_versions as show_versions
from dpmodels.results.merged import tbl_merge as tbl_merge
from dpmodels.results.merged import tbl_stack as tbl_stack
from dpmodels.results.inference import tidy_style as tidy_style
from dpmodels import datasets as datasets
from dpmodels import errors as errors
from dpmodels import formula as formula
from dpmodels import interop as interop
from dpmodels import privacy as privacy
from dpmodels import results as results
from dpmodels._version import __version__ as __version__

def dp_ate(
    formula: str, data: Any, *, treatment: str, propensity: str | None = ..., estimand: str =
    ..., family: str | None = ..., clip: Any = ..., folds: str | None = ..., eps: float = ...,
    delta: float = ..., method: str | None = ..., schema: Schema | None = ..., bounds:
    Mapping[str, tuple[float, float]] | str | None = ..., budget: Any = ..., seed: int | None =
    ..., progress: bool | None = ..., unit: str | None = ..., bounds_share: Any = ..., design:
    Any = ..., engine: Any = ..., inference: Any = ..., level: Any = ..., max_rows: Any = ...,
    n: Any = ..., na: Any = ..., on_no_reply: Any = ..., outcome: Any = ..., psus: Any = ...,
    public: Any = ..., relation: Any = ..., rows_per_unit: Any = ..., sort: Any = ..., split:
    Any = ..., subset: Any = ..., units: Any = ..., weights: Any = ...,
) -> TreatmentEffect: ...
def dp_bayes(
    formula: str, data: Any, *, eps: float, delta: float, method: str | None = ..., schema:
    Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ...,
    inference: bool = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None =
    ..., R: Any = ..., bounds_share: Any = ..., c0: Any = ..., design: Any = ..., engine: Any =
    ..., level: Any = ..., max_rows: Any = ..., n: Any = ..., na: Any = ..., on_no_reply: Any =
    ..., psus: Any = ..., public: Any = ..., relation: Any = ..., rows_per_unit: Any = ...,
    sort: Any = ..., split: Any = ..., subset: Any = ..., unit: Any = ..., units: Any = ...,
    variance: Any = ..., variant: Any = ..., weights: Any = ...,
) -> Classifier: ...
def dp_coxph(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., breaks: Any = ..., cause:
    Any = ..., concordance: bool = ..., method: str | None = ..., schema: Schema | None = ...,
    bounds: Mapping[str, tuple[float, float]] | str | None = ..., public: Any = ..., budget: Any
    = ..., seed: int | None = ..., progress: bool | None = ..., unit: str | None = ...,
    bounds_share: Any = ..., design: Any = ..., engine: Any = ..., inference: Any = ..., level:
    Any = ..., max_episodes: Any = ..., max_rows: Any = ..., n: Any = ..., na: Any = ...,
    on_no_reply: Any = ..., psus: Any = ..., relation: Any = ..., rows_per_unit: Any = ...,
    sort: Any = ..., split: Any = ..., stop: Any = ..., subset: Any = ..., times: Any = ...,
    units: Any = ..., weights: Any = ...,
) -> Hazards: ...
def dp_eptr(
    estimator: Callable[..., Any], safety: Callable[..., Any], alpha: float | Callable[[float],
    float], formula: str, data: Any, *, eps: float, delta: float, method: str | None = ...,
    size: int = ..., names: Sequence[str] | None = ..., schema: Schema | None = ..., bounds:
    Mapping[str, tuple[float, float]] | None = ..., budget: Any = ..., seed: int | None = ...,
    coin: Any = ..., design: Any = ..., engine: Any = ..., inference: Any = ..., level: Any =
    ..., max_rows: Any = ..., n: Any = ..., na: Any = ..., on_no_reply: Any = ..., psus: Any =
    ..., public: Any = ..., relation: Any = ..., rows_per_unit: Any = ..., sensitivity: Any =
    ..., sort: Any = ..., split: Any = ..., subset: Any = ..., test_share: Any = ..., unit: Any
    = ..., units: Any = ..., weights: Any = ...,
) -> Estimates: ...
def dp_feols(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., unit: str | None = ...,
    re: str | None = ..., mundlak: bool = ..., schema: Schema | None = ..., bounds: Mapping[str,
    tuple[float, float]] | str | None = ..., budget: Any = ..., seed: int | None = ...,
    progress: bool | None = ..., bounds_share: Any = ..., design: Any = ..., engine: Any = ...,
    inference: Any = ..., level: Any = ..., max_rows: Any = ..., method: Any = ..., n: Any =
    ..., n_guess: Any = ..., na: Any = ..., on_no_reply: Any = ..., psus: Any = ..., public: Any
    = ..., relation: Any = ..., rows_per_unit: Any = ..., sort: Any = ..., split: Any = ...,
    stop: Any = ..., subset: Any = ..., units: Any = ..., weights: Any = ...,
) -> Effects: ...
def dp_fepois(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., unit: str | None = ...,
    schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ...,
    budget: Any = ..., seed: int | None = ..., progress: bool | None = ..., bounds_share: Any =
    ..., design: Any = ..., engine: Any = ..., inference: Any = ..., level: Any = ..., max_rows:
    Any = ..., method: Any = ..., n: Any = ..., n_guess: Any = ..., na: Any = ..., on_no_reply:
    Any = ..., psus: Any = ..., public: Any = ..., relation: Any = ..., rows_per_unit: Any =
    ..., sort: Any = ..., split: Any = ..., stop: Any = ..., subset: Any = ..., units: Any =
    ..., weights: Any = ...,
) -> Effects: ...
def dp_glm(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., family: Any = ..., link:
    str | None = ..., method: str | None = ..., event: Any = ..., offset: str | None = ...,
    exposure: str | None = ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float,
    float]] | str | None = ..., public: Any = ..., inference: bool = ..., budget: Any = ...,
    seed: int | None = ..., progress: bool | None = ..., unit: str | None = ...,
    accept_no_estimate: Any = ..., allow_clear_records: Any = ..., alpha: Any = ..., blocks: Any
    = ..., bounds_share: Any = ..., clear_prob: Any = ..., design: Any = ..., draw_seed: Any =
    ..., engine: Any = ..., errors: Any = ..., fit_stats: Any = ..., guess: Any = ...,
    keep_order: Any = ..., lam: Any = ..., level: Any = ..., max_iter: Any = ..., max_rows: Any
    = ..., mean_cap: Any = ..., n: Any = ..., n_guess: Any = ..., na: Any = ..., noise: Any =
    ..., on_no_reply: Any = ..., person_weights: Any = ..., psus: Any = ..., public_columns: Any
    = ..., public_order: Any = ..., radius: Any = ..., relation: Any = ..., rescale: Any = ...,
    rows_per_unit: Any = ..., shape: Any = ..., sigma: Any = ..., sort: Any = ..., split: Any =
    ..., stop: Any = ..., subset: Any = ..., theta: Any = ..., tight: Any = ..., units: Any =
    ..., variances: Any = ..., variant: Any = ..., weights: Any = ...,
) -> Regression: ...
def dp_gptr(
    mechanism: Callable[..., Any], privacy_loss: Callable[..., Any], formula: str, data: Any, *,
    eps: float, delta: float, sensitivity: float, test: str = ..., size: int = ..., names:
    Sequence[str] | None = ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float,
    float]] | None = ..., budget: Any = ..., seed: int | None = ..., choose: Any = ..., design:
    Any = ..., engine: Any = ..., inference: Any = ..., level: Any = ..., max_rows: Any = ...,
    method: Any = ..., n: Any = ..., na: Any = ..., on_no_reply: Any = ..., proof: Any = ...,
    psus: Any = ..., public: Any = ..., relation: Any = ..., rows_per_unit: Any = ..., sort: Any
    = ..., split: Any = ..., subset: Any = ..., test_share: Any = ..., unit: Any = ..., units:
    Any = ..., weights: Any = ...,
) -> Estimates: ...
def dp_mean(
    formula: str | Sequence[str], data: Any, *, eps: float, delta: float, method: str | None =
    ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None =
    ..., inference: bool = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None
    = ..., beta: Any = ..., bounds_share: Any = ..., design: Any = ..., engine: Any = ...,
    level: Any = ..., look: Any = ..., max_rows: Any = ..., n: Any = ..., na: Any = ...,
    on_no_reply: Any = ..., psus: Any = ..., public: Any = ..., relation: Any = ...,
    rows_per_unit: Any = ..., sort: Any = ..., split: Any = ..., subset: Any = ..., test_share:
    Any = ..., unit: Any = ..., units: Any = ..., weights: Any = ..., width: Any = ...,
) -> Averages: ...
def dp_mest(
    formula: Any, data: Any, loss: Any = ..., *, eps: float = ..., delta: float = ..., method:
    str | None = ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] |
    str | None = ..., public: Any = ..., inference: bool = ..., budget: Any = ..., seed: int |
    None = ..., progress: bool | None = ..., unit: str | None = ..., accept_no_estimate: Any =
    ..., allow_clear_records: Any = ..., blocks: Any = ..., bounds_share: Any = ..., clear_prob:
    Any = ..., design: Any = ..., draw_seed: Any = ..., engine: Any = ..., errors: Any = ...,
    guess: Any = ..., h: Any = ..., k: Any = ..., keep_order: Any = ..., level: Any = ...,
    max_rows: Any = ..., n: Any = ..., n_guess: Any = ..., na: Any = ..., noise: Any = ...,
    on_no_reply: Any = ..., person_weights: Any = ..., psus: Any = ..., public_columns: Any =
    ..., public_order: Any = ..., radius: Any = ..., relation: Any = ..., rescale: Any = ...,
    rows_per_unit: Any = ..., scale: Any = ..., sigma: Any = ..., sort: Any = ..., split: Any =
    ..., stop: Any = ..., subset: Any = ..., tau: Any = ..., theta: Any = ..., tight: Any = ...,
    units: Any = ..., variances: Any = ..., variant: Any = ..., weights: Any = ...,
) -> Regression: ...
def dp_moments(
    columns: str | Sequence[str], data: Any, *, eps: float, delta: float, method: str | None =
    ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None =
    ..., public: Any = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None =
    ..., bounds_share: Any = ..., design: Any = ..., engine: Any = ..., eta: Any = ...,
    inference: Any = ..., level: Any = ..., max_rows: Any = ..., n: Any = ..., n_guess: Any =
    ..., na: Any = ..., on_no_reply: Any = ..., phi: Any = ..., psus: Any = ..., radius: Any =
    ..., relation: Any = ..., rho: Any = ..., rows_per_unit: Any = ..., shrink: Any = ..., sort:
    Any = ..., split: Any = ..., stages: Any = ..., subset: Any = ..., unit: Any = ..., units:
    Any = ..., weights: Any = ...,
) -> Moments: ...
def dp_multinom(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., base: Any = ..., schema:
    Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ..., public:
    Any = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None = ..., unit: str
    | None = ..., bounds_share: Any = ..., design: Any = ..., engine: Any = ..., inference: Any
    = ..., level: Any = ..., max_rows: Any = ..., method: Any = ..., n: Any = ..., n_guess: Any
    = ..., na: Any = ..., on_no_reply: Any = ..., psus: Any = ..., relation: Any = ...,
    rows_per_unit: Any = ..., sort: Any = ..., split: Any = ..., stop: Any = ..., subset: Any =
    ..., units: Any = ..., weights: Any = ...,
) -> Choice: ...
def dp_npreg(
    formula: str, data: Any, *, eps: float, delta: float, method: str | None = ..., schema:
    Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ...,
    inference: bool = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None =
    ..., at: Any = ..., bounds_share: Any = ..., c0: Any = ..., design: Any = ..., engine: Any =
    ..., h: Any = ..., level: Any = ..., level_j: Any = ..., max_rows: Any = ..., n: Any = ...,
    na: Any = ..., on_no_reply: Any = ..., psus: Any = ..., public: Any = ..., relation: Any =
    ..., rows_per_unit: Any = ..., sort: Any = ..., split: Any = ..., subset: Any = ..., unit:
    Any = ..., units: Any = ..., variant: Any = ..., weights: Any = ...,
) -> Curve: ...
def dp_ols(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., method: str | None = ...,
    schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ...,
    public: Any = ..., inference: bool = ..., budget: Any = ..., seed: int | None = ...,
    progress: bool | None = ..., unit: str | None = ..., Rtheta: Any = ..., Rx: Any = ..., Ry:
    Any = ..., accept_no_estimate: Any = ..., allow_clear_records: Any = ..., blocks: Any = ...,
    bounds_share: Any = ..., c0: Any = ..., clear_prob: Any = ..., clip: Any = ..., coin: Any =
    ..., combine: Any = ..., design: Any = ..., draw_seed: Any = ..., draws: Any = ..., engine:
    Any = ..., estimator: Any = ..., eta: Any = ..., floor: Any = ..., fractions: Any = ...,
    guess: Any = ..., inference_method: Any = ..., iterations: Any = ..., keep_order: Any = ...,
    lam: Any = ..., level: Any = ..., max_rows: Any = ..., n: Any = ..., n_guess: Any = ..., na:
    Any = ..., noise: Any = ..., on_fail: Any = ..., on_no_reply: Any = ..., person_weights: Any
    = ..., phi: Any = ..., psus: Any = ..., public_columns: Any = ..., public_order: Any = ...,
    query: Any = ..., radius: Any = ..., ranges: Any = ..., relation: Any = ..., rescale: Any =
    ..., rho: Any = ..., ridge: Any = ..., row_norm: Any = ..., rows: Any = ..., rows_per_unit:
    Any = ..., scoring: Any = ..., shrink: Any = ..., sigma: Any = ..., sort: Any = ..., split:
    Any = ..., stages: Any = ..., step: Any = ..., stop: Any = ..., subset: Any = ...,
    test_share: Any = ..., tight: Any = ..., units: Any = ..., variances: Any = ..., variant:
    Any = ..., vcov: Any = ..., weights: Any = ..., whiten: Any = ..., whitening: Any = ...,
) -> LinearRegression: ...
def dp_pca(
    formula: str | Sequence[str], data: Any, *, eps: float, delta: float, k: int = ..., schema:
    Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | None = ..., budget: Any =
    ..., seed: int | None = ..., design: Any = ..., engine: Any = ..., inference: Any = ...,
    level: Any = ..., max_rows: Any = ..., method: Any = ..., n: Any = ..., na: Any = ...,
    on_no_reply: Any = ..., psus: Any = ..., public: Any = ..., radius: Any = ..., relation: Any
    = ..., rows_per_unit: Any = ..., scale: Any = ..., sort: Any = ..., split: Any = ...,
    subset: Any = ..., unit: Any = ..., units: Any = ..., weights: Any = ...,
) -> Components: ...
def dp_polr(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., method: str = ..., schema:
    Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ..., public:
    Any = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None = ..., unit: str
    | None = ..., bounds_share: Any = ..., design: Any = ..., engine: Any = ..., inference: Any
    = ..., level: Any = ..., link: Any = ..., max_rows: Any = ..., n: Any = ..., n_guess: Any =
    ..., na: Any = ..., on_no_reply: Any = ..., psus: Any = ..., relation: Any = ...,
    rows_per_unit: Any = ..., sort: Any = ..., split: Any = ..., stop: Any = ..., subset: Any =
    ..., units: Any = ..., weights: Any = ...,
) -> OrderedChoice: ...
def dp_quantile(
    formula: str, data: Any, *, q: Any = ..., eps: float = ..., delta: float = ..., method: str
    | None = ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str |
    None = ..., inference: bool = ..., budget: Any = ..., seed: int | None = ..., progress: bool
    | None = ..., bounds_share: Any = ..., design: Any = ..., engine: Any = ..., level: Any =
    ..., max_rows: Any = ..., n: Any = ..., na: Any = ..., on_no_reply: Any = ..., points: Any =
    ..., psus: Any = ..., public: Any = ..., relation: Any = ..., rows_per_unit: Any = ...,
    sort: Any = ..., split: Any = ..., subset: Any = ..., unit: Any = ..., units: Any = ...,
    weights: Any = ...,
) -> Quantiles: ...
def dp_quantreg(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., tau: Any = ..., method:
    str | None = ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] |
    str | None = ..., public: Any = ..., inference: bool = ..., budget: Any = ..., seed: int |
    None = ..., progress: bool | None = ..., unit: str | None = ..., accept_no_estimate: Any =
    ..., allow_clear_records: Any = ..., blocks: Any = ..., bounds_share: Any = ..., clear_prob:
    Any = ..., design: Any = ..., draw_seed: Any = ..., engine: Any = ..., errors: Any = ...,
    guess: Any = ..., h: Any = ..., keep_order: Any = ..., level: Any = ..., max_rows: Any =
    ..., n: Any = ..., n_guess: Any = ..., na: Any = ..., noise: Any = ..., on_no_reply: Any =
    ..., person_weights: Any = ..., psus: Any = ..., public_columns: Any = ..., public_order:
    Any = ..., radius: Any = ..., relation: Any = ..., rescale: Any = ..., rows_per_unit: Any =
    ..., sigma: Any = ..., sort: Any = ..., split: Any = ..., stop: Any = ..., subset: Any =
    ..., theta: Any = ..., tight: Any = ..., units: Any = ..., variances: Any = ..., variant:
    Any = ..., weights: Any = ...,
) -> QuantileRegression: ...
def dp_survdiff(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., times: Any = ..., breaks:
    Any = ..., cause: Any = ..., method: str | None = ..., schema: Schema | None = ..., bounds:
    Mapping[str, tuple[float, float]] | str | None = ..., budget: Any = ..., seed: int | None =
    ..., progress: bool | None = ..., design: Any = ..., engine: Any = ..., inference: Any =
    ..., level: Any = ..., max_episodes: Any = ..., max_rows: Any = ..., n: Any = ..., na: Any =
    ..., on_no_reply: Any = ..., psus: Any = ..., public: Any = ..., relation: Any = ...,
    rows_per_unit: Any = ..., sort: Any = ..., split: Any = ..., subset: Any = ..., unit: Any =
    ..., units: Any = ..., weights: Any = ...,
) -> TestResult: ...
def dp_survfit(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., times: Any = ..., breaks:
    Any = ..., conf_type: str = ..., cause: Any = ..., method: str | None = ..., schema: Schema
    | None = ..., bounds: Mapping[str, tuple[float, float]] | str | None = ..., budget: Any =
    ..., seed: int | None = ..., progress: bool | None = ..., design: Any = ..., engine: Any =
    ..., inference: Any = ..., level: Any = ..., max_episodes: Any = ..., max_rows: Any = ...,
    n: Any = ..., na: Any = ..., on_no_reply: Any = ..., psus: Any = ..., public: Any = ...,
    relation: Any = ..., rows_per_unit: Any = ..., sort: Any = ..., split: Any = ..., subset:
    Any = ..., unit: Any = ..., units: Any = ..., weights: Any = ...,
) -> SurvivalCurves: ...
def dp_table(
    formula: str, data: Any, *, eps: float = ..., delta: float = ..., by: str | list[str] | None
    = ..., medians: Any = ..., quantiles: Any = ..., histogram: int | None = ..., method: str |
    None = ..., schema: Schema | None = ..., bounds: Mapping[str, tuple[float, float]] | str |
    None = ..., budget: Any = ..., seed: int | None = ..., progress: bool | None = ...,
    bounds_share: Any = ..., design: Any = ..., engine: Any = ..., errors: Any = ..., inference:
    Any = ..., level: Any = ..., look: Any = ..., max_rows: Any = ..., n: Any = ..., na: Any =
    ..., noise: Any = ..., on_no_reply: Any = ..., p_values: Any = ..., psus: Any = ..., public:
    Any = ..., relation: Any = ..., rows_per_unit: Any = ..., smd: Any = ..., sort: Any = ...,
    split: Any = ..., subset: Any = ..., suppress: Any = ..., unit: Any = ..., units: Any = ...,
    weights: Any = ...,
) -> Tabulation: ...
def dp_test(
    formula: str, data: Any, *, test: Any = ..., eps: float = ..., delta: float = ..., mu0:
    float | None = ..., p: Any = ..., schema: Schema | None = ..., bounds: Mapping[str,
    tuple[float, float]] | str | None = ..., budget: Any = ..., seed: int | None = ...,
    progress: bool | None = ..., a0: Any = ..., bounds_share: Any = ..., design: Any = ...,
    effect: Any = ..., engine: Any = ..., inference: Any = ..., level: Any = ..., look: Any =
    ..., max_rows: Any = ..., method: Any = ..., n: Any = ..., na: Any = ..., on_no_reply: Any =
    ..., parts: Any = ..., psus: Any = ..., public: Any = ..., relation: Any = ...,
    rows_per_unit: Any = ..., sd: Any = ..., shares: Any = ..., sides: Any = ..., sort: Any =
    ..., split: Any = ..., subset: Any = ..., unit: Any = ..., units: Any = ..., weights: Any =
    ...,
) -> TestResult: ...
