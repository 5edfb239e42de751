"""Catalogue of all notes: every text in one place, in the order in which a summary shows them.

Notes are sorted by severity, then by their position here. A method writes
``notes.append(messages.LARGE_RESIDUALS(columns=names))``. Short forms have at most 14 words plus
the columns, and no full stop at the end.
"""

from __future__ import annotations

from functools import partial

from dpmodels.notes import Note, Severity, Template

#: Code, short and long form of a note of each severity: this file is a table of them.
_G = partial(Template, Severity.GUARANTEE)
_I = partial(Template, Severity.INVALID)
_C = partial(Template, Severity.CAUTION)
_A = partial(Template, Severity.ASSUMPTION)
_D = partial(Template, Severity.DETAIL)


# -- Guarantee: conditions of the privacy statement ------------------------------------------------

NOT_PROVED = _G("selection.not_proved",
    "The guarantee of this choice is NOT PROVED: a run exceeded its budget",
    "Calls of one run (one fit of one candidate) cost more than the run may spend, or protect "
    "another unit, or against other neighbours. Do not rely on the printed eps; give every "
    "candidate at most the (eps, delta) of one run.")  # fmt: skip
PUBLIC_COLUMNS = _G("table.not_protected",
    "NOT PROTECTED, published unchanged",
    "Whoever sees the release sees these columns of every row. Take them out of public_columns= to "
    "protect them.")  # fmt: skip
ONE_ATTRIBUTE = _G("table.attribute",
    "The guarantee at eps = {eps:g} is for ONE ATTRIBUTE of a row",
    "A whole row is not protected at that eps. It has (eps = {row_eps:.4g}, delta = "
    "{row_delta:g}). unit='record' protects it at eps.")  # fmt: skip
WHOLE_ROW = _G("privacy.whole_row", "A whole row has the guarantee (ε = {eps:g}, δ = {delta:g})-DP")
CLEAR_RECORDS = _G("table.clear_records",
    "About {count:.4g} records are expected to be released without noise (clear_prob = {prob:g})",
    "They are published as they are. clear_prob=0 adds noise to every record.")  # fmt: skip
PUBLIC_ORDER = _G("table.public_order",
    "The order of the rows is public (keep_order=True)",
    "The guarantee assumes that it tells nothing about a row. If it may, leave keep_order "
    "out.")  # fmt: skip
USER_BOUNDS = _G("proof.user_eptr",
    "The guarantee holds if the safety bound and the sensitivity you gave are correct",
    "Check them with dpmodels.check_safety, and prove them.")  # fmt: skip
USER_LOSS = _G("proof.user_gptr",
    "The guarantee holds if the privacy loss, sensitivity and mechanism are as stated",
    "They cannot be checked here. If one is wrong, nothing is guaranteed.")  # fmt: skip
ROW_NOT_CLUSTER = _G("clusters.unit", "One {who} is protected, not one {psu}", "{detail}.")
ROW_NOT_PERSON = _G("unit.identifier_of_table",
    "One row is protected, not one person; {name} looks like a person identifier",
    "If people have several rows, make a table with one row per person first.")  # fmt: skip
CAP_AND_PAY = _G("people.capped",
    "At most {m} rows per person are used, and all are charged",
    "A person has the guarantee that is printed; each row by itself has (eps = {eps:.4g}, delta = "
    "{delta:.4g}).")  # fmt: skip
LEVELS_CHARGED = _G("levels.charged",
    "Levels were estimated in a separate charge (eps = {eps:g}, delta = {delta:g})",
    "A value was listed if its noisy count was above {threshold:.0f} {counted}; in each column at "
    "least about {held} of the {counted} have a listed value. Both charges sum to (eps = "
    "{total_eps:g}, delta = {total_delta:g}).")  # fmt: skip
UPDATED_FIT = _G("privacy.updated",
    "The updated fit and this one are (ε = {eps:g}, δ = {delta:g})-DP together",
    "This fit is a separate release. On the same data the two charges sum.")  # fmt: skip
FLOAT_NORMALS = _G("noise.float",
    "The guarantee is proved for exact normal noise; this fit uses 53-bit floats",
    "Outputs are rounded to a public grid.")  # fmt: skip
FLOAT_LAPLACE = _G("noise.smooth",
    "The guarantee is proved for exact Laplace noise; this fit uses 53-bit floats",
    "The scale of the noise depends on the data. Outputs are rounded to a public "
    "grid.")  # fmt: skip
FLOAT_TABLE = _G("noise.table",
    "The guarantee is proved for real-valued noise; this table uses 53-bit floats",
    "Cells are rounded to a public grid.")  # fmt: skip
FLOAT_RUNS = _G("noise.runs",
    "The guarantee is proved for exact uniform draws; this choice uses 53-bit floats",
    "The draws decide how many runs are made, and of which candidates.")  # fmt: skip
WARNING = _I("fit.warning", "Warning: {text}", "{more}")


# -- Invalid: a number is missing, or must not be used ---------------------------------------------

NO_RANGES = _I("ranges.not_found",
    "The ranges of undeclared variables could not be estimated at this budget",
    "There may be too few rows, or a column hardly varies. Declare the ranges, for example "
    "bounds={{'x': (0, 10)}}: declared ranges cost nothing.")  # fmt: skip
FEW_USABLE_ROWS = _I("rows.few_usable",
    "About {usable:.0f} of {n} {units} are usable (sd {sd:.0f}), too few",
    "The call stops below {least:.0f}. stop=False fits all the same.")  # fmt: skip
UNDECLARED_VALUES = _I("rows.undeclared_levels",
    "{name}: about {share:.0f} % of the values are declared levels (sd {sd:.0f} %)",
    "Declared: {levels}. Compare spelling, case and blanks with the data.")  # fmt: skip
USABLE_VALUES = _I("rows.usable_values",
    "{name}: about {share:.0f} % of the values are usable (sd {sd:.0f} %)",
    "The others are missing or cannot be read. Compare missing codes and the format of numbers "
    "with the data.")  # fmt: skip
RARE_BASE = _A("factor.rare_base",
    "Contrasts of {factor} are with {base!r}, which few rows have: their errors are large",
    "fit.relevel({factor!r}, {other!r}) has those with another level at no cost. In a formula: "
    "C({factor}, Treatment({other!r})).")  # fmt: skip
UNTYPED_NUMBERS = _I("rows.untyped_numbers",
    "First look at the type of {names}: objects or text, declared a number",
    "A cell that is not a number counts as missing. For example data[{name!r}] = "
    "pd.to_numeric(data[{name!r}], errors='coerce').")  # fmt: skip
NO_EIGENGAP = _I("components.no_gap",
    "The eigengap after component k did not exceed the noise",
    "One row may change these components, so none are released. Use another k, more rows or a "
    "larger eps.")  # fmt: skip
NO_USABLE = _I("rows.none_usable",
    "Usable {units}: {count:.0f}, with noise of sd {sd:.0f}: too few for a mean",
    "Most cells may be missing or outside subset=. More {units} or a larger eps would "
    "help.")  # fmt: skip
NO_WEIGHT = _I("weights.none",
    "The sum of the weights is too noisy at this budget",
    "The weights may all be near 0. More rows or a larger eps would help.")  # fmt: skip
NO_UNITS = _I("fit.no_units",
    "Nothing is estimated: the number of {who} that count is not above its noise",
    "Values may be missing, outside subset=, or all equal. More {who} or a larger eps would "
    "help.")  # fmt: skip
MOSTLY_NOISE = _I("fit.mostly_noise",
    "Most coefficients ({count} of {total}) are too noisy to interpret",
    "Use more {who}, a larger eps or fewer terms. dp.plan() shows how much is enough, at no "
    "cost.")  # fmt: skip
TOO_NOISY = _I("test.too_noisy",
    "Not tested, too noisy at this budget",
    "More {who}, a larger eps, narrower ranges or fewer terms would help.")  # fmt: skip
FEW_EVENTS = _I("test.few_events",
    "Not tested, fewer than 25 expected events or counts",
    "A normal interval needs more. Merge rare levels.")  # fmt: skip
SEPARATED = _I("test.separated",
    "Not tested, the predictors separate the events (nearly) completely",
    "Their intervals are open on the outer side: the data only show that an effect is this large "
    "or larger. Merge rare levels or drop a term.")  # fmt: skip
RARE_LEVELS = _I("test.rare_levels",
    "Not tested, too few {who} at a level of the response: {levels}",
    "The first steps of the fit cannot estimate the coefficients of these levels, so their printed "
    "intervals and bias bounds can be too small. Merge levels or use a larger eps.")  # fmt: skip
NO_ROWS = _I("design.no_rows",
    "Not estimable, subset= leaves no rows",
    "The condition in subset= leaves out every row with this level. Change it, or drop the "
    "level.")  # fmt: skip
ALIASED = _I("design.aliased",
    "Not estimable, a linear combination of other columns",
    "Drop a term.")  # fmt: skip
NOT_CONVERGED = _I("fit.not_converged",
    "The fit of these coefficients did not converge, so they are not tested",
    "The true value may be outside the interval. A larger eps, narrower ranges or levels with more "
    "rows or events would help.")  # fmt: skip
IMPLAUSIBLE = _I("fit.implausible",
    "Effects larger than the declared ranges allow, so these coefficients are not tested",
    "Over the range of the predictor the prediction would change by more than three times the "
    "range of the response, and the interval of this effect is as wide as the effect: mostly "
    "noise.")  # fmt: skip
NO_ERRORS_ASKED = _I("errors.none_asked",
    "No standard errors: the call had inference=False",
    "A fit with inference=True is a new release with a new charge.")  # fmt: skip
NO_ERRORS_RELEASED = _I("errors.none_released",
    "No standard errors: this method releases no {part} variance",
    "So there are no tests and no intervals. Use method='ssp' or 'pmt' for least squares with "
    "intervals.")  # fmt: skip
NO_ERRORS = _I("errors.none",
    "No coefficient of this fit has a standard error",
    "Other notes give the reason.")  # fmt: skip
NO_ERRORS_IDENTIFIED = _I("errors.none_identified",
    "No standard errors, the release is too noisy",
    "More rows, a larger eps, narrower ranges or fewer levels would help.")  # fmt: skip
FEW_CLUSTERS = _I("clusters.few",
    "No standard errors: the estimated number of clusters is too noisy",
    "Declare it, psus=<number>.")  # fmt: skip
NO_DESIGN_VARIANCE = _I("clusters.not_determined",
    "No {what}: the design variance is too noisy at this budget",
    "{remedy}.")  # fmt: skip
POSTERIOR_ERRORS = _I("errors.posterior",
    "No standard errors: the covariance of the noise depends on the data",
    "With every variable in units of half its range, the noise of a coefficient has sd at most "
    "{bound:.3g} in each draw. For intervals use method='ssp' or 'pmt'.")  # fmt: skip
NO_TESTS_RIDGE = _I("errors.ridge_bias",
    "No z and P: the ridge's bias is only partly in the standard errors",
    'They contain it to first order. method="scoring" gives tests.')  # fmt: skip
ERRORS_OF_NOISE = _I("errors.noise_only",
    "No sampling errors, tests or intervals: rows of one person may be correlated",
    "This release does not measure the correlation. The noise part is in bse_privacy. For "
    "cluster-robust errors use dp_ols(formula, data, unit=...).")  # fmt: skip
SMOOTHED_CORNER = _I("noised.smoothed_corner",
    "No standard errors: this loss is smoothed by a large, unmeasured amount",
    "The width of the smoothing is as large as the residuals, and its bias is in no error. It is "
    "smallest for tau = .5 and symmetric errors. Release with clear_prob > 0 and fit with "
    "method='drcl' for errors.")  # fmt: skip
NAIVE = _I("noised.naive",
    "NAIVE: the noise in the columns is ignored, so slopes are biased towards 0",
    "More noise means more bias, and no error contains it, so there are none. method='drcl' "
    "corrects for the noise.")  # fmt: skip


# -- Caution: interpret with care ------------------------------------------------------------------

IDENTIFIER = _C("unit.identifier",
    "One row is protected, not one person; {name} looks like a person identifier",
    "If people have several rows, add unit={name!r}.")  # fmt: skip
LARGE_RESIDUALS = _C("clip.large_residuals",
    "Large residuals may have been clipped, so intervals may be too narrow",
    "{evidence}. Narrower ranges, a log response or a larger eps would help.")  # fmt: skip
RIDGE_BIAS = _C("objpert.ridge_bias",
    "The ridge's bias exceeds a coefficient's other errors, so its interval is wide",
    "More rows, a larger ε or narrower ranges{first} would help.")  # fmt: skip
WEAK_INSTRUMENTS = _C("iv.first_stage",
    "First stage of {name}: F = {F:.4g} on {df} instrument{s} (p {p})",
    "The F test includes the noise. Below about 10 the instruments are weak: read the "
    "Anderson-Rubin set, not the interval.")  # fmt: skip
ANDERSON_RUBIN = _C("iv.anderson_rubin",
    "Anderson-Rubin {level:.0f} % set of {name}: {set}",
    "It is valid for weak instruments{weighted}.")  # fmt: skip
NO_ANDERSON_RUBIN = _C("iv.no_anderson_rubin",
    "No Anderson-Rubin set: it needs exactly one endogenous regressor",
    "If the first stages are weak, the intervals are too narrow.")  # fmt: skip
WEAK_DIRECTION = _C("moments.weak_direction",
    "Tests are conservative: one eigenvalue of the moments is only {ratio:.1f} times its noise",
    "It belongs to a linear combination of the columns that hardly varies. From {trusted:g} times "
    "on tests are as good as without noise. More rows, a larger eps or fewer columns would "
    "help.")  # fmt: skip
ONLY_EVENTS_CURVE = _C("surv.curve_ends",
    "A curve ends where its number at risk is within the noise: {where}",
    "Survival is not estimated beyond it. More rows, a larger eps or fewer groups would show "
    "more.")  # fmt: skip
DROPPED = _C("data.dropped",
    "About {share:.0f} % of the rows were dropped{shortened} (noisy count, sd {sd:.1f} %)",
    "A row is dropped if a value is missing, unreadable or an undeclared level{outside}. Check "
    "spelling, case and spaces of levels.")  # fmt: skip
DROPPED_UNITS = _C("data.dropped_units",
    "About {share:.0f} % of the {who} were dropped (noisy share, sd {sd:.1f} %)",
    "Their values are missing{single}. The share is from the released histogram, at no extra "
    "cost.")  # fmt: skip
RANGES_ESTIMATED = _C("ranges.estimated",
    "Ranges were estimated{cost}: {ranges}",
    "Declaring known ranges (bounds= or schema=) costs no budget.")  # fmt: skip
MAJORITY = _C("privacy.majority",
    "More than half of the variance is privacy noise: {name} ({share})",
    "More rows or a larger ε narrows the interval.{plan}")  # fmt: skip
CLUSTER_BOUND = _C("clusters.bound",
    "Cluster-robust errors are upper bounds: the cluster variance is too noisy",
    "{size}. The errors are row-level errors times the largest plausible design effect. Fewer "
    "coefficients, more rows or a larger eps would help.")  # fmt: skip
MOMENT_ERRORS = _C("moments.errors",
    "Standard errors assume one residual variance; intervals can be too narrow on real data",
    "Rows with large standardised values lose weight. vcov='hetero' gives robust errors for a "
    "tenth of the budget.")  # fmt: skip
POSTERIOR_RIDGE = _C("gptr.ridge",
    "Coefficients are shrunk by a ridge penalty ({lam:.4g}, standardised)",
    "It pulls them towards 0 and was chosen from released numbers. More rows or a larger eps makes "
    "it smaller.")  # fmt: skip
DRAW_START = _D("gptr.start",
    "The initial fit is one posterior draw (fit.arrays['draw'])",
    "Newton steps follow. Estimates and errors are those of the last step, which no longer contain "
    "the ridge and the noise of the draw. inference=False gives the draw alone, with the whole "
    "budget.")  # fmt: skip
POSTERIOR_DRAWS = _A("gptr.draws",
    "The estimate is the mean of {many} draws",
    "Their standard deviations contain no sampling error, only the noise of one draw about the "
    "ridge solution: {sds}.")  # fmt: skip
RIDGE_RAISED = _C("gptr.ridge_raised",
    "lam= was too small for the released least eigenvalue, and was raised",
    "A smaller ridge would not be private at this eps. With more rows or a larger eps it can be "
    "smaller.")  # fmt: skip
TESTED_RIDGE = _C("eptr.ridge",
    "Coefficients are shrunk by a ridge penalty, so they have no standard errors",
    "It pulls them towards 0, by an amount set by the released bound. More rows or a larger eps "
    "lowers it; method='ssp' has standard errors.")  # fmt: skip
EPTR_START = _D("eptr.start",
    "The initial fit has the coefficients of ePTR (efficient Propose-Test-Release)",
    "Newton steps follow, and estimates and errors are those of the last step. scoring=False gives "
    "ePTR alone, with the whole budget.")  # fmt: skip
EPTR_START_RIDGE = _D("eptr.start_ridge",
    "The initial fit has the coefficients of ePTR (efficient Propose-Test-Release), with a ridge",
    "The released bound of the least eigenvalue was low. Newton steps remove the ridge again, and "
    "estimates and errors are those of the last step.")  # fmt: skip
EPTR_ALONE = _I("eptr.alone",
    "Not tested: these errors do not hold on real tables",
    "They assume one residual variance and no bias from rows that were shrunk. Their intervals "
    "covered .68 on average. The default (without scoring=) gives errors that hold.")  # fmt: skip
GLM_RIDGE = _C("glm.ridge",
    "Coefficients are shrunk by a ridge penalty ({lam:.4g}, standardised)",
    "The penalty keeps the fit stable and private.{share}")  # fmt: skip
LONG_ROWS = _A("objpert.shrunk_rows",
    "Rows with standardised length above {radius:.3g} were down-weighted (radius=)",
    "Columns are standardised to {unit}.{twice} If the model is only approximate, coefficients "
    "differ from the unweighted fit; a larger radius= down-weights less and adds "
    "noise.")  # fmt: skip
BIASED_ROWS = _C("eptr.projected_rows",
    "Predictors of rows with standardised length above {radius:.3g} were shrunk, with bias",
    "Their responses were not, so slopes are biased if such rows are many. clip='scale' shrinks "
    "both.")  # fmt: skip
STEIN = _C("ssp.stein",
    "Coefficients were shrunk towards {towards} (Stein ridge {lam:.3g}, factor {factor:.3g})",
    "{errors}")  # fmt: skip
DOMINATED = _C("ssp.dominated",
    "Noise dominates a direction of the design; standard errors assume moderate coefficients",
    "They are root mean squared errors that include the ridge's bias, for coefficients about "
    "{towards} with sd {sd:g} (in half ranges of the response per half range of the "
    "column).")  # fmt: skip
NO_COUNT = _C("ssp.no_count",
    "Without an intercept, rows with missing cells make sigma and sampling errors too small",
    "They use the number of all rows: only a model with an intercept releases the number of "
    "complete rows.")  # fmt: skip
WEIGHTED_RELEASE = _C("moments.weighted",
    "Rows far from the centre of all columns count less in every regression",
    "If errors are skewed or their variance differs, intervals can miss the coefficients of all "
    "rows (0 to 97 % coverage at n = 50 000). A release by method='joint' gives equal weights (91 "
    "to 98 %, with several times the noise); phi=1 down-weights less.")  # fmt: skip
LONG_PEOPLE = _C("moments.people",
    "A person with many or extreme rows counts less in every regression",
    "So coefficients can differ from those of all rows. dp_ols(formula, data, unit=...) fits the "
    "data themselves.")  # fmt: skip
RECURRENT = _C("surv.recurrent",
    "Errors assume independent episodes; with recurrent events they are too small")  # fmt: skip
LATE_ENTRIES = _C("surv.entries",
    "Entries within an interval count half at risk, and the error is a bound",
    "Near times at which many enter, most of the error of a curve comes from this. Breaks (times=) "
    "at the times of entry, or after most of them, reduce it.")  # fmt: skip
NO_TOTAL_ERRORS = _C("weights.no_total_errors",
    "Totals have no design-based error here",
    "They need population=, or strata whose units are declared by labels (dp.Count) and compared "
    "in pairs.")  # fmt: skip
SELECTED_GROUPS = _C("test.selected_groups",
    "Means are shown only for groups whose noisy count exceeds the noise",
    "So intervals of small groups cover less often than stated. The test uses all groups; "
    "dp_table() has valid intervals for each.")  # fmt: skip
PUBLIC_ONLY = _C("pmt.public_fit", "Public-only fit ({rows}; standard errors in brackets): {cells}")
PUBLIC_FIT = _C("public.fit",
    "Public / private fit ({m} public {who}; standard errors in brackets): {cells}")
PUBLIC_RARE = _C("pmt.rare_levels",
    "Rare in the public data, so down-weighted in the initial fit",
    "Rows with these levels are longer than its clipping radius. Merging rare levels avoids "
    "it.")  # fmt: skip
NOTHING_COMBINED = _C("pmt.nothing_combined", "combine=True had no effect: {why}")
COMBINED = _A("pmt.combined",
    "Private and public fits were combined by precision (combine=True, m = {m})",
    "This assumes that the public and the private rows have the same coefficients.")  # fmt: skip
FILLED_CELLS = _C("noised.filled",
    "Missing cells were filled with the declared value before the noise",
    "Estimates keep the bias of that; no correction removes it.")  # fmt: skip
NO_SAMPLING_GLM = _C("glm.no_errors",
    "This method releases no sampling standard errors",
    "Use method='objpert' to get them.")  # fmt: skip
SUPPRESSED = _C("table.suppressed",
    "Suppressed: values based on a released count below {least:g}",
    "Such values are mostly noise. A larger eps or fewer cells would show more.")  # fmt: skip
COMPARISON_BAYES = _C("bayes.comparison",
    "For comparison: dp_bayes(method='sums') is more accurate at the same guarantee",
    "This method is kept to reproduce a published result.")  # fmt: skip
NO_ERRORS_DESCENT = _C("descent.no_errors",
    "No standard errors: gradient descent clips and stops early",
    "Tests and intervals are missing, too. method='ssp' has them.")  # fmt: skip
NO_ERRORS_SKETCH = _C("sketch.no_errors",
    "No standard errors: the sketch adds error of order sqrt(2/r) to every moment",
    "Tests and intervals are missing, too. method='ssp' has them.")  # fmt: skip
NO_ERRORS_OUTPUT = _C("output.no_errors",
    "No standard errors: output perturbation shrinks coefficients by a public ridge",
    "Tests and intervals are missing, too. method='ssp' has them.")  # fmt: skip
NO_ERRORS_ADASSP = _C("adassp.no_errors",
    "No standard errors: the ridge of AdaSSP biases the coefficients",
    "Tests and intervals are missing, too. method='ssp' has them.")  # fmt: skip
NO_ERRORS_FUNCTIONAL = _C("functional.no_errors",
    "No standard errors: the ridge of the functional mechanism biases the coefficients",
    "Tests and intervals are missing, too. method='ssp' has them.")  # fmt: skip
PUBLISHED_FIT = _C("pmt.published",
    "The published algorithm has no stabilisation and no standard errors",
    "Tests and intervals are missing, too. method='pmt' has them.")  # fmt: skip
PUBLISHED_MOMENTS = _C("moments.published",
    "The published algorithm, with radius and noise of the paper",
    "It adds more noise than method='pmt' at the same guarantee.")  # fmt: skip


# -- Assumption: conditions of a standard error or an interval -------------------------------------

BIAS_ALLOWANCE = _A("bias.allowance",
    "P and intervals include an allowance for clipping bias (calibrated, not proved)",
    "Clipping large scores can bias a coefficient by up to the value in the column Bias <=. The "
    "rule was calibrated on real tables.")  # fmt: skip
WEIGHED_FIT = _A("bias.weighed",
    "No score is cut: rows that could have long scores count less",
    "The coefficients are those of a weighted fit, the same where the model is exact. Where the "
    "effect of a long-tailed predictor bends, it can differ from the unweighted one by more than "
    "its interval: try log(x) or bs(x). A larger eps weighs less.")  # fmt: skip
ERRORS_HC1 = _A("errors.hc1",
    "Standard errors are robust to unequal variances (HC1), not to correlated rows",
    'For clusters use vcov={{"CRV1": "village"}}; for people with several rows, '
    "unit=.")  # fmt: skip
ERRORS_HETERO = _A("errors.hetero",
    "Standard errors are robust to unequal variances (HC1), not to correlated rows",
    "They are from one more release, the moments of the scores of the last stage. The noise of "
    "this release is about {variance:.1f} % of a variance ({error:.1f} % of a standard error), and "
    "intervals are not widened for it.")  # fmt: skip
ERRORS_PERSON = _A("errors.person",
    "Standard errors are cluster-robust by {who} ({column})",
    "{more}")  # fmt: skip
ERRORS_IID = _A("errors.iid",
    "Standard errors assume one residual variance (vcov='iid')",
    "If the variance differs between rows, they can be too small. Without vcov= they are "
    "robust.")  # fmt: skip
ERRORS_INFORMATION = _A("objpert.errors",
    "Standard errors are {kind}, from a released information matrix",
    "Their privacy part contains the noise and, to first order, the ridge's bias.")  # fmt: skip
CLUSTER_ERRORS = _A("clusters.conservative",
    "Cluster-robust errors are conservative: up to twice too large for uncorrelated rows",
    "Released design effects are noisy. Each is shrunk towards their mean and set to at least 0.7, "
    "so the small ones become too large.")  # fmt: skip
MAX_ROWS = _A("people.max_rows",
    "Sampling variances are multiplied by {m}: a person's rows may be correlated (max_rows={m})",
    "This is always enough and usually too much. max_rows=1 avoids it.")  # fmt: skip
CLIPPED_VALUES = _A("data.clipped",
    "Values outside their ranges were set to the nearest bound; {missing}",
    "The exact numbers are private.")  # fmt: skip
MISSING_VALUES = _A("data.missing", "In this fit {missing}", "The exact number is private.")
SHRUNK_ROWS = _A("eptr.shrunk_rows",
    "Rows with standardised length above {radius:.3g} were shrunk (weighted least squares)",
    "If the linear model is only approximate, estimates can differ from least squares by more than "
    "the standard errors. method='ssp' shrinks less.")  # fmt: skip
LIGHT_WEIGHTS = _A("ssp.light_weights",
    "Rows far from the fit were down-weighted (less than {share:.0f} % of all weight)",
    "If errors have long tails, coefficients can differ from ordinary least squares by more than "
    "their standard errors. A larger phi= (1, say) down-weights less and adds noise.")  # fmt: skip
LOST_WEIGHTS = _A("ssp.lost_weights",
    "Extreme rows lost weight, {zero} have none: {share:.1f} % of all weight",
    "If errors are skewed, their variance differs or the model is only approximate, estimates can "
    "differ from ordinary least squares by more than the standard errors. A larger phi= (1, say) "
    "down-weights less and adds noise.")  # fmt: skip
PEOPLE_MOMENTS = _A("moments.of_people",
    "Moments of rows, in which people with many or extreme rows count less",
    "So variances are understated if tails are heavy. 'rows a person' is the released number of "
    "valid rows per person. Regressions on these moments have errors of the noise only; "
    "dp_ols(formula, data, unit=...) has cluster-robust ones.")  # fmt: skip
JOINT_MOMENTS = _A("moments.joint",
    "Moments per row; a row with a missing cell counts as zero",
    "Divide by 'complete rows' if cells are missing.")  # fmt: skip
WHITENED_MOMENTS = _A("moments.whitened",
    "Moments of weighted rows: rows far from the centre count less",
    "A row with a missing cell does not count. Variances are understated if tails are heavy. "
    "'{weights}' is the released mean weight; method='joint' gives equal weights, with more "
    "noise.")  # fmt: skip
WHITENED_BY_PUBLIC = _A("moments.public_whitening",
    "Moments of weighted rows: rows far from the public data's centre count less",
    "A row with a missing cell does not count. Variances are understated, more so with heavy "
    "tails. '{weights}' is the released mean weight; multiplied by it (arrays['moments_per_row']) "
    "the moments are sums of scaled rows over n.")  # fmt: skip
FREE_MOMENTS = _A("moments.free", "Computed from a release of second moments{cost}", "{errors}")
CLIPPED_MEAN = _A("mean.rows",
    "A row with a missing cell counts for none of the means",
    "The number of complete rows is released with noise.")  # fmt: skip
WINDOWS = _A("mean.windows",
    "Values count within windows where most were found ({windows})",
    "Intervals allow for values beyond, if tails keep falling as they do "
    "inside. Up to {hidden:.0f} values of a side that lie apart from all others are "
    "not seen: ranges that fit the values, or split=, leave no such doubt.")  # fmt: skip
AS_DECLARED = _A("mean.declared",
    "Values count within their whole ranges, as delta = 0",
    "No histogram finds narrower ones: a range that is too wide makes intervals wider.")
PEOPLE_MEAN = _A("mean.people",
    "Each person ({column}) counts once, by the mean of their complete rows",
    "A person without a complete row does not count; the number of people who do is released with "
    "noise. Errors are those of people's means.")  # fmt: skip
PURE_MEAN = _A("mean.pure",
    "The noise is Laplace noise (delta = 0)",
    "Where it dominates, a 95 % interval covers in 94 of 100 samples. Covariances of means are not "
    "released.")  # fmt: skip
EQUAL_PEOPLE = _A("people.equal",
    "Each person counts once, for any number of rows",
    "So coefficients describe a person drawn at random, not a row drawn at random.")  # fmt: skip
TABLE_TARGET = _A("table.target",
    "Counts describe this table; shares and means describe the population",
    "Intervals of counts contain privacy noise only; those of shares and means contain sampling "
    "error too.")  # fmt: skip
TABLE_PEOPLE = _A("table.person",
    "Each person counts once: 2 of 5 rows in a cell add 0.4",
    "Means, standard deviations and errors are those of people's means, whatever the dependence "
    "within a person. At a small eps sampling errors are too large, by a rule.")  # fmt: skip
FIELLER = _A("table.fieller",
    "Means use Fieller intervals; very small groups show the interval only",
    "A mean is shown if the count is at least {sds:g} noise sds. Errors of standard deviations are "
    "those of normal values (with histogram=, of the released bins); their intervals hold for any "
    "values. Standard deviations of small groups are overstated, because only those that exceed "
    "their noise are shown.")  # fmt: skip
WEIGHTED_TABLE = _A("weights.table",
    "Totals are of {what}; shares and means are weighted (Hajek)",
    "Errors are by linearisation, for {units} with replacement. They contain the "
    "noise.")  # fmt: skip
WEIGHTED_MEANS = _A("weights.means",
    "Weighted means with errors by linearisation; weights are used as delivered",
    "The computation of the weights is outside this guarantee.")  # fmt: skip
TRIMMED_WEIGHTS = _A("weights.trimmed",
    "Weights are clipped at {top:.3g}; about {lost:.1f} % of all weight is above",
    "{more}")  # fmt: skip
WEIGHTED_PEOPLE = _A("weights.people",
    "Each person counts once, by the mean weight of their rows",
    "Counts are sums of people's weights. Standard errors allow for any dependence between the "
    "rows of one person.")  # fmt: skip
WEIGHTS_DELIVERED = _A("weights.delivered",
    "Weights are used as delivered; their computation is outside this guarantee",
    "{more}")  # fmt: skip
TEST_PEOPLE = _A("test.people",
    "Each person counts once, by the mean of their rows",
    "The variance is that of people's means and shares, so the level holds for any dependence "
    "within a person. At a small eps it is larger, by a rule.")  # fmt: skip
UNSEEN_LEVELS = _C("test.unseen_levels",
    "Not in the test, as their released counts are not above their noise: {levels}",
    "No degrees of freedom are counted for them.")  # fmt: skip
INDEPENDENCE_EXACT = _A("test.independence",
    "The test is exact if both variables are independent, not only uncorrelated",
    "It is not exact if the variance of one depends on the other.")  # fmt: skip
RAO_SCOTT = _A("test.rao_scott",
    "Hypothesis: independence (Rao-Scott, second order: F, {df:.2f} and {free:.0f} df, by {units})",
    "The covariance contains the noise.")  # fmt: skip
CONSERVATIVE_TEST = _A("test.conservative",
    "The test is conservative if rows of a PSU are uncorrelated",
    "It then rejects .02 to .03 of true hypotheses at .05.")  # fmt: skip
TEST_OF_TESTS = _A("test.of_tests",
    "Test of tests: {m} parts, each tested at level {a0:g}",
    "The noisy number of rejections is compared with its distribution under the null. The test "
    "must keep its level in a part.")  # fmt: skip
HYPOTHESIS = _A("test.hypothesis", "Hypothesis: {text}", "{more}")
WOODRUFF = _A("quantiles.woodruff",
    "{kind} with Woodruff intervals, which include the noise",
    "They invert the noisy distribution function, with the sampling error of a weighted share and "
    "an allowance for clipped weights.{steps}")  # fmt: skip
EM_INTERVALS = _A("quantiles.em",
    "Intervals are conservative: two draws at ranks moved outwards by their error",
    "Both are draws of the exponential mechanism.{steps}")  # fmt: skip
TREE_INTERVALS = _A("quantiles.tree",
    "Intervals invert the noisy distribution function and include sampling error",
    "Heaped values make them wider, never too narrow.{steps}")  # fmt: skip
MISSING_QUANTILES = _A("quantiles.missing",
    "Missing values are left out of the quantiles; how many is not published",
    "If values are missing for a reason that depends on them, quantiles are biased.")  # fmt: skip
PUBLISHED_HAZARD = _A("cox.baseline",
    "The baseline hazard is that of the released table; ties need no correction",
    "It has a value for each half of a time interval, corrected by a released quadratic in "
    "time.")  # fmt: skip
SURVIVAL_COUNTS = _A("surv.counts",
    "Counts are noisy and may be negative or fractional",
    "Numbers at risk, events and survival at a time come from one release.")  # fmt: skip
EVENTS_FIRST = _A("surv.first_events",
    "Events at {time:g}, the start of the declared range, count first",
    "Everybody is at risk of them.")  # fmt: skip
STRAIGHT = _A("surv.straight",
    "Medians and restricted means take curves as straight between breaks",
    "For times in whole periods declare dp.Count(...); or fit.rmst(steps=True), if times are "
    "breaks.")  # fmt: skip
LOGRANK_NOISE = _A("surv.logrank",
    "The variance of the statistic includes the noise, so the level holds",
    "Noise costs power. Counts are noisy.")  # fmt: skip
KERNEL_BAND = _A("kernel.band",
    "The band covers the kernel estimate without privacy, not the true curve",
    "It does not include smoothing bias or sampling error. Of a 0/1 response that is declared as "
    "dp.Binary() it includes sampling error.")  # fmt: skip
KERNEL_SMOOTHED = _A("kernel.smoothed",
    "The band covers the smoothed curve: it includes sampling error, not smoothing bias")
KERNEL_GAPS = _A("kernel.gaps",
    "Points with too small a noisy sum of kernel weights have no value (nan)",
    "Too few rows are near them. A larger bandwidth, more rows or a larger eps would "
    "help.")  # fmt: skip
WITHIN_PEOPLE = _A("panel.within",
    "Coefficients are effects within people ({column}); constants of a person are not estimable",
    "Whether a column is constant within people is private, so no column is dropped. The "
    "coefficient of a constant column is then not determined.")  # fmt: skip
RELEASED_WEIGHTS = _A("panel.weights",
    "Coefficients are those at the released variance components, which weight the people",
    "Errors in the components make standard errors larger, not coefficients wrong.")  # fmt: skip
CLIPPED_PROPENSITY = _A("effect.overlap",
    "{share:.0f} % of the propensities are outside {low:g} to {high:g} and were clipped",
    "Their weights are then too small. The interval allows for an outcome model that is off there "
    "by 1.5 residual sds, and no more.")  # fmt: skip
EFFECT_OF_PEOPLE = _A("effect.people",
    "The effect is an average over people ({column}), each counted once",
    "A person adds the mean over their complete rows.")  # fmt: skip
MUNDLAK = _A("panel.mundlak",
    "x is the effect within people ({column}); mean(x) is between minus within",
    "fit.hausman() tests that it is zero. A variable that is constant within people has no effect "
    "within: mundlak=False leaves the means out.")  # fmt: skip
MIXTURE = _A("panel.mixture",
    "Effects within and between people are mixed if predictors correlate with intercepts",
    "The mixture is by the released weights. mundlak=True separates the two.")  # fmt: skip
FEATURES_INDEPENDENT = _A("bayes.independent",
    "Features are independent within a class; variances are {variances}",
    "If features are correlated, predicted probabilities are too close to 0 and 1. Errors hold "
    "for this model.")  # fmt: skip
SUBSPACE = _A("components.subspace",
    "Only the subspace is estimated, to about {angle:.2g} degrees; loadings are in {units}",
    "The angle has noise and a bound of sampling. Axes are those of the released projector.")
RESAMPLED = _A("noised.resampled",
    "Standard errors are the spread of {count} fits to resampled released rows",
    "They cost nothing. The noise is large here: the smallest eigenvalue of the noise-corrected "
    "moments is only {signal:.2g} times its standard error. From {least:g} times on the usual "
    "sandwich errors are used.")  # fmt: skip
READ_FROM_MOMENTS = _A("table.from_moments",
    "Computed from released moments, at no cost",
    "A row with any missing cell among the columns of the moments is in the cell (missing). Errors "
    "of group means use the standard deviation of all rows, as that within groups is not "
    "released.")  # fmt: skip
CLUSTER_EFFECTS = _A("weights.design_effects",
    "Design effect of the PSUs (released): {effects}",
    "{more}")  # fmt: skip
PLAIN_NOTE = _A("plain", "{text}", "{more}")


# -- Detail: how a number was computed -------------------------------------------------------------

SHRUNK_PREDICTIONS = _D("predict.shrunk",
    "Predictions use shrunken coefficients: {names} (fit.shrunk)",
    "Shrinking noisy coefficients improves prediction.")  # fmt: skip
STANDARD_ERROR = _D("errors.parts",
    "Standard error² = sampling² + privacy²{bias}",
    "sampling: estimated from private releases (fit.ledger). privacy: {privacy}.")  # fmt: skip
LARGEST_SHARE = _D("privacy.share",
    "Privacy noise is at most {share} of a coefficient's variance: {name}",
    "More rows or a larger ε reduces it.{plan}")  # fmt: skip
CONVERTED = _D("privacy.converted",
    "The guarantee is converted from a proof for adding or removing one row",
    "A replaced row counts as one row removed and one added, which the charge "
    "includes.")  # fmt: skip
NOTHING_SPENT = _D("output.absent", "Not released by this method: {names}")
NOT_DERIVED = _D("output.not_derived", "Not reported: {names} ({why})")
PROOF = _D("proof.registered", "Privacy proof: {name} ({file}, section {section})")
REFERENCE = _D("inference.normal", "P and intervals use the {distribution} distribution{tested}")
METHOD_CHOICE = _D("method.choice", "{text}", "{more}")
ESTIMATOR = _D("noised.estimator", "Estimator: {title}")
R_SQUARED = _D("r2.definition",
    "R-squared is from the last iteration; its interval includes the privacy noise",
    "It compares the variance of fitted values with that plus the residual variance. Extreme rows "
    "are down-weighted; the interval assumes normal data. Coins choose the rows of the last "
    "iteration, so R-squared and the residual sd do not become exact as eps grows.")  # fmt: skip
DEVIANCE = _D("deviance.clipped",
    "Deviance: each row is cut at {most:g} dispersions, about {cut:.3g} in total",
    "This total is estimated from the released histogram of score lengths. It is not added to the "
    "deviance. The errors of deviance and pseudo R-squared allow for it.{low}")  # fmt: skip
CONSISTENT_COUNTS = _D("table.consistent",
    "Counts sum to n, so they can be fractional or negative",
    "Margins are sums of cells.")  # fmt: skip
TABLE_QUANTILES = _D("table.quantiles",
    "Quantiles by the exponential mechanism; dp_quantile gives intervals",
    "They have no intervals here.")  # fmt: skip
SURVIVAL_SCALE = _D("surv.scale", "Intervals are symmetric on the {scale} scale{default}")
INCIDENCE = _D("surv.incidence", "F is the share with the event of this cause by then",
    "Events of other causes do not count as censoring (Aalen and Johansen).")  # fmt: skip
CAUSE_SPECIFIC = _D("surv.cause_specific",
    "Hazards are cause-specific: events of other causes are censored",
    "dp_survfit(..., cause=) estimates shares with the event.")  # fmt: skip
STRATIFIED = _D("surv.stratified",
    "Groups are compared within {count} strata",
    "Differences between strata do not enter the test.")  # fmt: skip
BOOTSTRAP = _D("ssp.bootstrap",
    "Standard errors are from a parametric bootstrap of released numbers ({draws} draws)",
    "They are half the width of the central 95 % of the deviations, divided by 1.96.")  # fmt: skip
SMOOTHED_KINKS = _D("noised.kinks",
    "Kinks of the {loss} loss are smoothed with width h = {h:.4g}",
    "Without smoothing the noise cannot be corrected for. h= sets another width.")  # fmt: skip
ONE_COVARIANCE = _D("noised.one_covariance",
    "Sampling and privacy errors are not separated for this loss",
    "The standard error contains both.")  # fmt: skip
ORDINAL_SLOPES = _D("choice.ordinal",
    "Slopes are log odds of a higher level, as in R's polr",
    "P(y <= k) = F(threshold - x'b).")  # fmt: skip
MULTINOMIAL_BASE = _D("choice.base",
    "Coefficients are log odds of each level against {base!r}, the first declared",
    "The log odds of two other levels are the difference of their coefficients.")  # fmt: skip
CELL_MEANS = _D("kernel.cells",
    "Cell means; predict() interpolates between the mid-points of cells")  # fmt: skip
CHI_SQUARED = _D("test.chi_squared",
    "P uses the chi-squared distribution; the variance includes sampling and noise")  # fmt: skip


def catalogue() -> tuple[Template, ...]:
    """Return all templates, in the order in which notes of one severity are shown."""
    return tuple(value for value in globals().values() if isinstance(value, Template))


_PLACES = {template.code: place for place, template in enumerate(catalogue())}


def sort_notes(notes: list[Note]) -> list[Note]:
    """Return notes by severity, then by their position in the catalogue."""
    return sorted(notes, key=lambda n: (-n.severity, _PLACES.get(n.code, _PLACES["plain"])))
