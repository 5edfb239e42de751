"""Catalogue of all notes: every text in one place, in the order in which a summary shows them.

Notes are sorted by severity, then by their position here. A method writes
``notes.append(messages.LARGE_RESIDUALS(columns=names))``. Short forms have at most 14 words plus
the columns, and no full stop at the end.
"""

from __future__ import annotations

from dpmodels.notes import Note, Severity, Template

_G, _I, _C, _A, _D = (
    Severity.GUARANTEE,
    Severity.INVALID,
    Severity.CAUTION,
    Severity.ASSUMPTION,
    Severity.DETAIL,
)


# -- Guarantee: conditions of the privacy statement ------------------------------------------------

NOT_PROVED = Template(
    "selection.not_proved", _G,
    "The guarantee of this choice is NOT PROVED: a run exceeded its budget",
    "Calls of one run (one fit of one candidate) cost more than the run may spend, or protect "
    "against other neighbours. Do not rely on the printed eps; give every candidate at most the "
    "(eps, delta) of one run.",
)  # fmt: skip
PUBLIC_COLUMNS = Template(
    "table.not_protected", _G,
    "NOT PROTECTED, published unchanged",
    "Whoever sees the release sees these columns of every row. Take them out of public_columns= "
    "to protect them.",
)  # fmt: skip
ONE_ATTRIBUTE = Template(
    "table.attribute", _G,
    "The guarantee at eps = {eps:g} is for ONE ATTRIBUTE of a row",
    "A whole row is not protected at that eps. It has (eps = {row_eps:.4g}, delta = "
    "{row_delta:g}). unit='record' protects it at eps.",
)  # fmt: skip
WHOLE_ROW = Template(
    "privacy.whole_row", _G, "A whole row has the guarantee (ε = {eps:g}, δ = {delta:g})-DP",
)  # fmt: skip
CLEAR_RECORDS = Template(
    "table.clear_records", _G,
    "About {count:.4g} records are expected to be released without noise (clear_prob = "
    "{prob:g})",
    "They are published as they are. clear_prob=0 adds noise to every record.",
)  # fmt: skip
PUBLIC_ORDER = Template(
    "table.public_order", _G,
    "The order of the rows is public (keep_order=True)",
    "The guarantee assumes that it tells nothing about a row. If it may, leave keep_order out.",
)  # fmt: skip
USER_BOUNDS = Template(
    "proof.user_eptr", _G,
    "The guarantee holds if the safety bound and the sensitivity you gave are correct",
    "Check them with dpmodels.check_safety, and prove them.",
)  # fmt: skip
USER_LOSS = Template(
    "proof.user_gptr", _G,
    "The guarantee holds if the privacy loss, sensitivity and mechanism are as stated",
    "They cannot be checked here. If one is wrong, nothing is guaranteed.",
)  # fmt: skip
ROW_NOT_CLUSTER = Template(
    "clusters.unit", _G,
    "One {who} is protected, not one {psu}",
    "{detail}.",
)  # fmt: skip
ROW_NOT_PERSON = Template(
    "unit.identifier_of_table", _G,
    "One row is protected, not one person; {name} looks like a person identifier",
    "If people have several rows, make a table with one row per person first.",
)  # fmt: skip
CAP_AND_PAY = Template(
    "people.capped", _G,
    "At most {m} rows per person are used, and all are charged",
    "A person has the guarantee that is printed; each row by itself has (eps = {eps:.4g}, delta "
    "= {delta:.4g}).",
)  # fmt: skip
LEVELS_CHARGED = Template(
    "levels.charged", _G,
    "Levels were estimated in a separate charge (eps = {eps:g}, delta = {delta:g})",
    "A value was listed if its noisy count was above {threshold:.0f} {counted}; in each column "
    "at least about {held} of the {counted} have a listed value. Both charges sum to (eps = "
    "{total_eps:g}, delta = {total_delta:g}).",
)  # fmt: skip
UPDATED_FIT = Template(
    "privacy.updated", _G,
    "The updated fit and this one are (ε = {eps:g}, δ = {delta:g})-DP together",
    "This fit is a separate release. On the same data the two charges sum.",
)  # fmt: skip
FLOAT_NORMALS = Template(
    "noise.float", _G,
    "The guarantee is proved for exact normal noise; this fit uses 53-bit floats",
    "Outputs are rounded to a public grid.",
)  # fmt: skip
FLOAT_LAPLACE = Template(
    "noise.smooth", _G,
    "The guarantee is proved for exact Laplace noise; this fit uses 53-bit floats",
    "The scale of the noise depends on the data. Outputs are rounded to a public grid.",
)  # fmt: skip
FLOAT_TABLE = Template(
    "noise.table", _G,
    "The guarantee is proved for real-valued noise; this table uses 53-bit floats",
    "Cells are rounded to a public grid.",
)  # fmt: skip
FLOAT_RUNS = Template(
    "noise.runs", _G,
    "The guarantee is proved for exact uniform draws; this choice uses 53-bit floats",
    "The draws decide how many runs are made, and of which candidates.",
)  # fmt: skip
WARNING = Template("fit.warning", _I, "Warning: {text}", "{more}")


# -- Invalid: a number is missing, or must not be used ---------------------------------------------

NO_RANGES = Template(
    "ranges.not_found", _I,
    "The ranges of undeclared variables could not be estimated at this budget",
    "There may be too few rows, or a column hardly varies. Declare the ranges, for example "
    "bounds={{'x': (0, 10)}}: declared ranges cost nothing.",
)  # fmt: skip
FEW_USABLE_ROWS = Template(
    "rows.few_usable", _I,
    "About {usable:.0f} of {n} {units} are usable (sd {sd:.0f}), too few",
    "The call stops below {least:.0f}. stop=False fits all the same.",
)  # fmt: skip
UNDECLARED_VALUES = Template(
    "rows.undeclared_levels", _I,
    "{name}: about {share:.0f} % of the values are declared levels (sd {sd:.0f} %)",
    "Declared: {levels}. Compare spelling, case and blanks with the data.",
)  # fmt: skip
USABLE_VALUES = Template(
    "rows.usable_values", _I,
    "{name}: about {share:.0f} % of the values are usable (sd {sd:.0f} %)",
    "The others are missing or cannot be read. Compare missing codes and the format of numbers "
    "with the data.",
)  # fmt: skip
NO_EIGENGAP = Template(
    "components.no_gap", _I,
    "The eigengap after component k did not exceed the noise",
    "One row may change these components, so none are released. Use another k, more rows or a "
    "larger eps.",
)  # fmt: skip
NO_WEIGHT = Template(
    "weights.none", _I,
    "The sum of the weights is too noisy at this budget",
    "The weights may all be near 0. More rows or a larger eps would help.",
)  # fmt: skip
MOSTLY_NOISE = Template(
    "fit.mostly_noise", _I,
    "Most coefficients ({count} of {total}) are too noisy to interpret",
    "Use more {who}, a larger eps or fewer terms. dp.plan() shows how much is enough, at no cost.",
)  # fmt: skip
TOO_NOISY = Template(
    "test.too_noisy", _I,
    "Not tested, too noisy at this budget",
    "More {who}, a larger eps, narrower ranges or fewer terms would help.",
)  # fmt: skip
FEW_EVENTS = Template(
    "test.few_events", _I,
    "Not tested, fewer than 25 expected events or counts",
    "A normal interval needs more. Merge rare levels.",
)  # fmt: skip
SEPARATED = Template(
    "test.separated", _I,
    "Not tested, the predictors separate the events (nearly) completely",
    "Their intervals are open on the outer side: the data only show that an effect is this large "
    "or larger. Merge rare levels or drop a term.",
)  # fmt: skip
RARE_LEVELS = Template(
    "test.rare_levels", _I,
    "Not tested, too few {who} at a level of the response: {levels}",
    "The first steps of the fit cannot estimate the coefficients of these levels, so their printed "
    "intervals and bias bounds can be too small. Merge levels or use a larger eps.",
)  # fmt: skip
NO_ROWS = Template(
    "design.no_rows", _I,
    "Not estimable, subset= leaves no rows",
    "The condition in subset= leaves out every row with this level. Change it, or drop the "
    "level.",
)  # fmt: skip
ALIASED = Template(
    "design.aliased", _I, "Not estimable, a linear combination of other columns", "Drop a term.",
)  # fmt: skip
NOT_CONVERGED = Template(
    "fit.not_converged", _I,
    "The fit of these coefficients did not converge, so they are not tested",
    "The true value may be outside the interval. A larger eps, narrower ranges or levels with more "
    "rows or events would help.",
)  # fmt: skip
ONE_GROUP = Template(
    "fit.one_group", _I,
    "Large residuals of one group were clipped, so these coefficients are not tested",
    "The group is one level of a factor, or one end of the range of a numeric variable. The "
    "clipping may move the coefficients out of their intervals. A larger eps, more rows or a "
    "transformed response would help.",
)  # fmt: skip
IMPLAUSIBLE = Template(
    "fit.implausible", _I,
    "Effects larger than the declared ranges allow, so these coefficients are not tested",
    "Over the range of the predictor the prediction would change by more than three times the "
    "range of the response, and the interval of this effect is as wide as the effect: mostly "
    "noise.",
)  # fmt: skip
NO_ERRORS_ASKED = Template(
    "errors.none_asked", _I,
    "No standard errors: the call had inference=False",
    "A fit with inference=True is a new release with a new charge.",
)  # fmt: skip
NO_ERRORS_RELEASED = Template(
    "errors.none_released", _I,
    "No standard errors: this method releases no {part} variance",
    "So there are no tests and no intervals. Use method='ssp' or 'pmt' for least squares with "
    "intervals.",
)  # fmt: skip
NO_ERRORS = Template(
    "errors.none", _I, "No coefficient of this fit has a standard error",
    "Other notes give the reason.",
)  # fmt: skip
NO_ERRORS_IDENTIFIED = Template(
    "errors.none_identified", _I,
    "No standard errors, the release is too noisy",
    "More rows, a larger eps, narrower ranges or fewer levels would help.",
)  # fmt: skip
FEW_CLUSTERS = Template(
    "clusters.few", _I,
    "No standard errors: the estimated number of clusters is too noisy",
    "Declare it, psus=<number>.",
)  # fmt: skip
NO_DESIGN_VARIANCE = Template(
    "clusters.not_determined", _I,
    "No {what}: the design variance is too noisy at this budget",
    "{remedy}.",
)  # fmt: skip
POSTERIOR_ERRORS = Template(
    "errors.posterior", _I,
    "No standard errors: the covariance of the noise depends on the data",
    "With every variable in units of half its range, the noise of a coefficient has sd at most "
    "{bound:.3g} in each draw. For intervals use method='ssp' or 'pmt'.",
)  # fmt: skip
NO_TESTS_RIDGE = Template(
    "errors.ridge_bias", _I,
    "No z and P: the ridge's bias is only partly in the standard errors",
    "They contain it to first order. method=\"scoring\" gives tests.",
)  # fmt: skip
ERRORS_OF_NOISE = Template(
    "errors.noise_only", _I,
    "No sampling errors, tests or intervals: rows of one person may be correlated",
    "This release does not measure the correlation. The noise part is in bse_privacy. For "
    "cluster-robust errors use dp_ols(formula, data, unit=...).",
)  # fmt: skip
SMOOTHED_CORNER = Template(
    "noised.smoothed_corner", _I,
    "No standard errors: this loss is smoothed by a large, unmeasured amount",
    "The width of the smoothing is as large as the residuals, and its bias is in no error. It is "
    "smallest for tau = .5 and symmetric errors. Release with clear_prob > 0 and fit with "
    "method='drcl' for errors.",
)  # fmt: skip
NAIVE = Template(
    "noised.naive", _I,
    "NAIVE: the noise in the columns is ignored, so slopes are biased towards 0",
    "More noise means more bias, and no error contains it. method='drcl' corrects for the "
    "noise.",
)  # fmt: skip


# -- Caution: interpret with care ------------------------------------------------------------------

IDENTIFIER = Template(
    "unit.identifier", _C,
    "One row is protected, not one person; {name} looks like a person identifier",
    "If people have several rows, add unit={name!r}.",
)  # fmt: skip
LARGE_RESIDUALS = Template(
    "clip.large_residuals", _C,
    "Large residuals may have been clipped, so intervals may be too narrow",
    "{evidence}. Narrower ranges, a log response or a larger eps would help.",
)  # fmt: skip
RIDGE_BIAS = Template(
    "objpert.ridge_bias", _C,
    "The ridge's bias exceeds a coefficient's other errors, so its interval is wide",
    "More rows, a larger ε or narrower ranges{first} would help.",
)  # fmt: skip
WEAK_INSTRUMENTS = Template(
    "iv.first_stage", _C,
    "First stage of {name}: F = {F:.4g} on {df} instrument{s} (p {p})",
    "The F test includes the noise. Below about 10 the instruments are weak: read the "
    "Anderson-Rubin set, not the interval.",
)  # fmt: skip
ANDERSON_RUBIN = Template(
    "iv.anderson_rubin", _C,
    "Anderson-Rubin {level:.0f} % set of {name}: {set}",
    "It is valid for weak instruments{weighted}.",
)  # fmt: skip
NO_ANDERSON_RUBIN = Template(
    "iv.no_anderson_rubin", _C,
    "No Anderson-Rubin set: it needs exactly one endogenous regressor",
    "If the first stages are weak, the intervals are too narrow.",
)  # fmt: skip
WEAK_DIRECTION = Template(
    "moments.weak_direction", _C,
    "Tests are conservative: one eigenvalue of the moments is only {ratio:.1f} times its noise",
    "It belongs to a linear combination of the columns that hardly varies. From {trusted:g} times "
    "on tests are as good as without noise. More rows, a larger eps or fewer columns would help.",
)  # fmt: skip
ONLY_EVENTS_CURVE = Template(
    "surv.curve_ends", _C,
    "A curve ends where its number at risk is within the noise: {where}",
    "Survival is not estimated beyond it. More rows, a larger eps or fewer groups would show "
    "more.",
)  # fmt: skip
DROPPED = Template(
    "data.dropped", _C,
    "About {share:.0f} % of the rows were dropped{shortened} (noisy count, sd {sd:.1f} %)",
    "A row is dropped if a value is missing, unreadable or an undeclared level{outside}. Check "
    "spelling, case and spaces of levels.",
)  # fmt: skip
DROPPED_UNITS = Template(
    "data.dropped_units", _C,
    "About {share:.0f} % of the {who} were dropped (noisy share, sd {sd:.1f} %)",
    "Their values are missing{single}. The share is from the released histogram, at no extra cost.",
)  # fmt: skip
RANGES_ESTIMATED = Template(
    "ranges.estimated", _C,
    "Ranges were estimated{cost}: {ranges}",
    "Declaring known ranges (bounds= or schema=) costs no budget.",
)  # fmt: skip
MAJORITY = Template(
    "privacy.majority", _C,
    "More than half of the variance is privacy noise: {name} ({share})",
    "More rows or a larger ε narrows the interval.{plan}",
)  # fmt: skip
CLUSTER_BOUND = Template(
    "clusters.bound", _C,
    "Cluster-robust errors are upper bounds: the cluster variance is too noisy",
    "{size}. The errors are row-level errors times the largest plausible design effect. Fewer "
    "coefficients, more rows or a larger eps would help.",
)  # fmt: skip
MOMENT_ERRORS = Template(
    "moments.errors", _C,
    "Standard errors assume one residual variance; intervals can be too narrow on real data",
    "Rows with large standardised values lose weight. vcov='hetero' gives robust errors for a "
    "tenth of the budget.",
)  # fmt: skip
POSTERIOR_RIDGE = Template(
    "gptr.ridge", _C,
    "Coefficients are shrunk by a ridge penalty ({lam:.4g}, standardised)",
    "It pulls them towards 0 and was chosen from released numbers. More rows or a larger eps "
    "makes it smaller.",
)  # fmt: skip
DRAW_START = Template(
    "gptr.start", _D, "The initial fit is one posterior draw (fit.arrays['draw'])",
    "Newton steps follow. Estimates and errors are those of the last step, which no longer contain "
    "the ridge and the noise of the draw. inference=False gives the draw alone, with the whole "
    "budget.",
)  # fmt: skip
POSTERIOR_DRAWS = Template(
    "gptr.draws", _A, "The estimate is the mean of {many} draws",
    "Their standard deviations contain no sampling error, only the noise of one draw about the "
    "ridge solution: {sds}.",
)  # fmt: skip
RIDGE_RAISED = Template(
    "gptr.ridge_raised", _C,
    "lam= was too small for the released least eigenvalue, and was raised",
    "A smaller ridge would not be private at this eps. With more rows or a larger eps it can be "
    "smaller.",
)  # fmt: skip
TESTED_RIDGE = Template(
    "eptr.ridge", _C,
    "Coefficients are shrunk by a ridge penalty, so they have no standard errors",
    "It pulls them towards 0, by an amount set by the released bound. More rows or a larger eps "
    "lowers it; method='ssp' has standard errors.",
)  # fmt: skip
EPTR_START = Template(
    "eptr.start", _D,
    "The initial fit has the coefficients of ePTR (efficient Propose-Test-Release)",
    "Newton steps follow, and estimates and errors are those of the last step. scoring=False gives "
    "ePTR alone, with the whole budget.",
)  # fmt: skip
EPTR_START_RIDGE = Template(
    "eptr.start_ridge", _D,
    "The initial fit has the coefficients of ePTR (efficient Propose-Test-Release), with a ridge",
    "The released bound of the least eigenvalue was low. Newton steps remove the ridge again, and "
    "estimates and errors are those of the last step.",
)  # fmt: skip
EPTR_ALONE = Template(
    "eptr.alone", _I, "Not tested: these errors do not hold on real tables",
    "They assume one residual variance and no bias from rows that were shrunk. Their intervals "
    "covered .68 on average. The default (without scoring=) gives errors that hold.",
)  # fmt: skip
GLM_RIDGE = Template(
    "glm.ridge", _C, "Coefficients are shrunk by a ridge penalty ({lam:.4g}, standardised)",
    "The penalty keeps the fit stable and private.{share}",
)  # fmt: skip
LONG_ROWS = Template(
    "objpert.shrunk_rows", _A,
    "Rows with standardised length above {radius:.3g} were down-weighted (radius=)",
    "Columns are standardised to {unit}.{twice} If the model is only approximate, coefficients "
    "differ from the unweighted fit; a larger radius= down-weights less and adds noise.",
)  # fmt: skip
BIASED_ROWS = Template(
    "eptr.projected_rows", _C,
    "Predictors of rows with standardised length above {radius:.3g} were shrunk, with bias",
    "Their responses were not, so slopes are biased if such rows are many. clip='scale' shrinks "
    "both.",
)  # fmt: skip
STEIN = Template(
    "ssp.stein", _C,
    "Coefficients were shrunk towards {towards} (Stein ridge {lam:.3g}, factor {factor:.3g})",
    "{errors}",
)  # fmt: skip
DOMINATED = Template(
    "ssp.dominated", _C,
    "Noise dominates a direction of the design; standard errors assume moderate coefficients",
    "They are root mean squared errors that include the ridge's bias, for coefficients about "
    "{towards} with sd {sd:g} (in half ranges of the response per half range of the column).",
)  # fmt: skip
NO_COUNT = Template(
    "ssp.no_count", _C,
    "Without an intercept, rows with missing cells make sigma and sampling errors too small",
    "They use the number of all rows: only a model with an intercept releases the number of "
    "complete rows.",
)  # fmt: skip
WEIGHTED_RELEASE = Template(
    "moments.weighted", _C,
    "Rows far from the centre of all columns count less in every regression",
    "If errors are skewed or their variance differs, intervals can miss the coefficients of all "
    "rows (0 to 97 % coverage at n = 50 000). A release by method='joint' gives equal weights (91 "
    "to 98 %, with several times the noise); phi=1 down-weights less.",
)  # fmt: skip
LONG_PEOPLE = Template(
    "moments.people", _C,
    "A person with many or extreme rows counts less in every regression",
    "So coefficients can differ from those of all rows. dp_ols(formula, data, unit=...) fits "
    "the data themselves.",
)  # fmt: skip
RECURRENT = Template(
    "surv.recurrent", _C,
    "Errors assume independent episodes; with recurrent events they are too small",
)  # fmt: skip
LATE_ENTRIES = Template(
    "surv.entries", _C,
    "Entries within an interval count half at risk, and the error is a bound",
    "Near times at which many enter, most of the error of a curve comes from this. Breaks (times=) "
    "at the times of entry, or after most of them, reduce it.",
)  # fmt: skip
NO_TOTAL_ERRORS = Template(
    "weights.no_total_errors", _C,
    "Totals have no design-based error here",
    "They need population=, or strata whose units are declared by labels (dp.Count) and compared "
    "in pairs.",
)  # fmt: skip
SELECTED_GROUPS = Template(
    "test.selected_groups", _C,
    "Means are shown only for groups whose noisy count exceeds the noise",
    "So intervals of small groups cover less often than stated. The test uses all groups; "
    "dp_table() has valid intervals for each.",
)  # fmt: skip
PUBLIC_ONLY = Template(
    "pmt.public_fit", _C,
    "Public-only fit ({rows}; standard errors in brackets): {cells}",
)  # fmt: skip
PUBLIC_START = Template(
    "objpert.public_fit", _C, "The public data alone give (no privacy cost): {cells}",
)  # fmt: skip
PUBLIC_RARE = Template(
    "pmt.rare_levels", _C,
    "Rare in the public data, so down-weighted in the initial fit",
    "Rows with these levels are longer than its clipping radius. Merging rare levels avoids it.",
)  # fmt: skip
NOTHING_COMBINED = Template(
    "pmt.nothing_combined", _C, "combine=True had no effect: {why}",
)  # fmt: skip
COMBINED = Template(
    "pmt.combined", _A,
    "Private and public fits were combined by precision (combine=True, m = {m})",
    "This assumes that the public and the private rows have the same coefficients.",
)  # fmt: skip
FILLED_CELLS = Template(
    "noised.filled", _C,
    "Missing cells were filled with the declared value before the noise",
    "Estimates keep the bias of that; no correction removes it.",
)  # fmt: skip
NO_SAMPLING_GLM = Template(
    "glm.no_errors", _C,
    "This method releases no sampling standard errors",
    "Use method='objpert' to get them.",
)  # fmt: skip
SUPPRESSED = Template(
    "table.suppressed", _C,
    "Suppressed: values based on a released count below {least:g}",
    "Such values are mostly noise. A larger eps or fewer cells would show more.",
)  # fmt: skip
COMPARISON_BAYES = Template(
    "bayes.comparison", _C,
    "For comparison: dp_bayes(method='sums') is more accurate at the same guarantee",
    "This method is kept to reproduce a published result.",
)  # fmt: skip
NO_ERRORS_DESCENT = Template(
    "descent.no_errors", _C,
    "No standard errors: gradient descent clips and stops early",
    "Tests and intervals are missing, too. method='ssp' has them.",
)  # fmt: skip
NO_ERRORS_SKETCH = Template(
    "sketch.no_errors", _C,
    "No standard errors: the sketch adds error of order sqrt(2/r) to every moment",
    "Tests and intervals are missing, too. method='ssp' has them.",
)  # fmt: skip
NO_ERRORS_OUTPUT = Template(
    "output.no_errors", _C,
    "No standard errors: output perturbation shrinks coefficients by a public ridge",
    "Tests and intervals are missing, too. method='ssp' has them.",
)  # fmt: skip
NO_ERRORS_ADASSP = Template(
    "adassp.no_errors", _C,
    "No standard errors: the ridge of AdaSSP biases the coefficients",
    "Tests and intervals are missing, too. method='ssp' has them.",
)  # fmt: skip
NO_ERRORS_FUNCTIONAL = Template(
    "functional.no_errors", _C,
    "No standard errors: the ridge of the functional mechanism biases the coefficients",
    "Tests and intervals are missing, too. method='ssp' has them.",
)  # fmt: skip
PUBLISHED_FIT = Template(
    "pmt.published", _C,
    "The published algorithm has no stabilisation and no standard errors",
    "Tests and intervals are missing, too. method='pmt' has them.",
)  # fmt: skip
PUBLISHED_MOMENTS = Template(
    "moments.published", _C,
    "The published algorithm, with radius and noise of the paper",
    "It adds more noise than method='pmt' at the same guarantee.",
)  # fmt: skip


# -- Assumption: conditions of a standard error or an interval -------------------------------------

BIAS_ALLOWANCE = Template(
    "bias.allowance", _A,
    "P and intervals include an allowance for clipping bias (calibrated, not proved)",
    "Clipping large scores can bias a coefficient by up to the value in the column Bias <=. The "
    "rule was calibrated on real tables.",
)  # fmt: skip
ERRORS_HC1 = Template(
    "errors.hc1", _A,
    "Standard errors are robust to unequal variances (HC1), not to correlated rows",
    "For clusters use vcov={{\"CRV1\": \"village\"}}; for people with several rows, unit=.",
)  # fmt: skip
ERRORS_HETERO = Template(
    "errors.hetero", _A,
    "Standard errors are robust to unequal variances (HC1), not to correlated rows",
    "They are from one more release, the moments of the scores of the last stage. The noise of "
    "this release is about {variance:.1f} % of a variance ({error:.1f} % of a standard error), and "
    "intervals are not widened for it.",
)  # fmt: skip
ERRORS_PERSON = Template(
    "errors.person", _A,
    "Standard errors are cluster-robust by {who} ({column})",
    "{more}",
)  # fmt: skip
ERRORS_IID = Template(
    "errors.iid", _A,
    "Standard errors assume one residual variance (vcov='iid')",
    "If the variance differs between rows, they can be too small. Without vcov= they are "
    "robust.",
)  # fmt: skip
ERRORS_INFORMATION = Template(
    "objpert.errors", _A,
    "Standard errors are {kind}, from a released information matrix",
    "Their privacy part contains the noise and, to first order, the ridge's bias.",
)  # fmt: skip
CLUSTER_ERRORS = Template(
    "clusters.conservative", _A,
    "Cluster-robust errors are conservative: up to twice too large for uncorrelated rows",
    "Released design effects are noisy. Each is shrunk towards their mean and set to at least 0.7, "
    "so the small ones become too large.",
)  # fmt: skip
MAX_ROWS = Template(
    "people.max_rows", _A,
    "Sampling variances are multiplied by {m}: a person's rows may be correlated (max_rows={m})",
    "This is always enough and usually too much. max_rows=1 avoids it.",
)  # fmt: skip
CLIPPED_VALUES = Template(
    "data.clipped", _A,
    "Values outside their ranges were set to the nearest bound; {missing}",
    "The exact numbers are private.",
)  # fmt: skip
MISSING_VALUES = Template(
    "data.missing", _A, "In this fit {missing}", "The exact number is private.",
)  # fmt: skip
SHRUNK_ROWS = Template(
    "eptr.shrunk_rows", _A,
    "Rows with standardised length above {radius:.3g} were shrunk (weighted least squares)",
    "If the linear model is only approximate, estimates can differ from least squares by more than "
    "the standard errors. method='ssp' shrinks less.",
)  # fmt: skip
LIGHT_WEIGHTS = Template(
    "ssp.light_weights", _A,
    "Rows far from the fit were down-weighted (less than {share:.0f} % of all weight)",
    "If errors have long tails, coefficients can differ from ordinary least squares by more than "
    "their standard errors. A larger phi= (1, say) down-weights less and adds noise.",
)  # fmt: skip
LOST_WEIGHTS = Template(
    "ssp.lost_weights", _A,
    "Extreme rows lost weight, {zero} have none: {share:.1f} % of all weight",
    "If errors are skewed, their variance differs or the model is only approximate, estimates can "
    "differ from ordinary least squares by more than the standard errors. A larger phi= (1, say) "
    "down-weights less and adds noise.",
)  # fmt: skip
PEOPLE_MOMENTS = Template(
    "moments.of_people", _A,
    "Moments of rows, in which people with many or extreme rows count less",
    "So variances are understated if tails are heavy. 'rows a person' is the released number of "
    "valid rows per person. Regressions on these moments have errors of the noise only; "
    "dp_ols(formula, data, unit=...) has cluster-robust ones.",
)  # fmt: skip
JOINT_MOMENTS = Template(
    "moments.joint", _A,
    "Moments per row; a row with a missing cell counts as zero",
    "Divide by 'complete rows' if cells are missing.",
)  # fmt: skip
WHITENED_MOMENTS = Template(
    "moments.whitened", _A,
    "Moments of weighted rows: rows far from the centre count less",
    "A row with a missing cell does not count. Variances are understated if tails are heavy. "
    "'{weights}' is the released mean weight; method='joint' gives equal weights, with more noise.",
)  # fmt: skip
WHITENED_BY_PUBLIC = Template(
    "moments.public_whitening", _A,
    "Moments of weighted rows: rows far from the public data's centre count less",
    "A row with a missing cell does not count. Variances are understated, more so with heavy "
    "tails. '{weights}' is the released mean weight; multiplied by it (arrays['moments_per_row']) "
    "the moments are sums of scaled rows over n.",
)  # fmt: skip
FREE_MOMENTS = Template(
    "moments.free", _A,
    "Computed from a release of second moments{cost}",
    "{errors}",
)  # fmt: skip
CLIPPED_MEAN = Template(
    "mean.rows", _A,
    "A row with a missing cell counts for none of the means",
    "The number of complete rows is released with noise.",
)  # fmt: skip
PEOPLE_MEAN = Template(
    "mean.people", _A,
    "Each person ({column}) counts once, by the mean of their complete rows",
    "A person without a complete row does not count; the number of people who do is released "
    "with noise. Errors are those of people's means.",
)  # fmt: skip
PURE_MEAN = Template(
    "mean.pure", _A, "The noise is Laplace noise (delta = 0)",
    "Where it dominates, a 95 % interval covers in 94 of 100 samples. Covariances of means are "
    "not released.",
)  # fmt: skip
EQUAL_PEOPLE = Template(
    "people.equal", _A,
    "Each person counts once, for any number of rows",
    "So coefficients describe a person drawn at random, not a row drawn at random.",
)  # fmt: skip
TABLE_TARGET = Template(
    "table.target", _A,
    "Counts describe this table; shares and means describe the population",
    "Intervals of counts contain privacy noise only; those of shares and means contain sampling "
    "error too.",
)  # fmt: skip
TABLE_PEOPLE = Template(
    "table.person", _A,
    "Each person counts once: 2 of 5 rows in a cell add 0.4",
    "Means, standard deviations and errors are those of people's means. Sampling errors allow any "
    "dependence within a person, and can be too large.",
)  # fmt: skip
FIELLER = Template(
    "table.fieller", _A,
    "Means use Fieller intervals; very small groups show the interval only",
    "A mean is shown if the count is at least {sds:g} noise sds. Errors of standard deviations are "
    "upper bounds (with histogram=, computed from the released bins). Standard deviations of small "
    "groups are overstated, because only those that exceed their noise are shown.",
)  # fmt: skip
WEIGHTED_TABLE = Template(
    "weights.table", _A,
    "Totals are of {what}; shares and means are weighted (Hajek)",
    "Errors are by linearisation, for {units} with replacement. They contain the noise.",
)  # fmt: skip
WEIGHTED_MEANS = Template(
    "weights.means", _A,
    "Weighted means with errors by linearisation; weights are used as delivered",
    "The computation of the weights is outside this guarantee.",
)  # fmt: skip
TRIMMED_WEIGHTS = Template(
    "weights.trimmed", _A,
    "Weights are clipped at {top:.3g}; about {lost:.1f} % of all weight is above",
    "{more}",
)  # fmt: skip
WEIGHTED_PEOPLE = Template(
    "weights.people", _A, "Each person counts once, by the mean weight of their rows",
    "Counts are sums of people's weights. Standard errors allow for any dependence between the "
    "rows of one person.",
)  # fmt: skip
WEIGHTS_DELIVERED = Template(
    "weights.delivered", _A,
    "Weights are used as delivered; their computation is outside this guarantee",
    "{more}",
)  # fmt: skip
TEST_PEOPLE = Template(
    "test.people", _A,
    "Each person counts once, by the mean of their rows",
    "The variance is that of people's means (for counts, of one row each, which is no smaller), "
    "so the level holds for any dependence within a person.",
)  # fmt: skip
INDEPENDENCE_EXACT = Template(
    "test.independence", _A,
    "The test is exact if both variables are independent, not only uncorrelated",
    "It is not exact if the variance of one depends on the other.",
)  # fmt: skip
RAO_SCOTT = Template(
    "test.rao_scott", _A,
    "Hypothesis: independence (Rao-Scott, second order: F, {df:.2f} and {free:.0f} df, by {units})",
    "The covariance contains the noise.",
)  # fmt: skip
CONSERVATIVE_TEST = Template(
    "test.conservative", _A,
    "The test is conservative if rows of a PSU are uncorrelated",
    "It then rejects .02 to .03 of true hypotheses at .05.",
)  # fmt: skip
TEST_OF_TESTS = Template(
    "test.of_tests", _A,
    "Test of tests: {m} parts, each tested at level {a0:g}",
    "The noisy number of rejections is compared with its distribution under the null. The test "
    "must keep its level in a part.",
)  # fmt: skip
HYPOTHESIS = Template("test.hypothesis", _A, "Hypothesis: {text}", "{more}")
WOODRUFF = Template(
    "quantiles.woodruff", _A,
    "{kind} with Woodruff intervals, which include the noise",
    "They invert the noisy distribution function, with the sampling error of a weighted share and "
    "an allowance for clipped weights.{steps}",
)  # fmt: skip
EM_INTERVALS = Template(
    "quantiles.em", _A,
    "Intervals are conservative: two draws at ranks moved outwards by their error",
    "Both are draws of the exponential mechanism.{steps}",
)  # fmt: skip
TREE_INTERVALS = Template(
    "quantiles.tree", _A,
    "Intervals invert the noisy distribution function and include sampling error",
    "Heaped values make them wider, never too narrow.{steps}",
)  # fmt: skip
MISSING_QUANTILES = Template(
    "quantiles.missing", _A,
    "Missing values are left out of the quantiles; how many is not published",
    "If values are missing for a reason that depends on them, quantiles are biased.",
)  # fmt: skip
PUBLISHED_HAZARD = Template(
    "cox.baseline", _A,
    "The baseline hazard is that of the released table; ties need no correction",
    "It has a value for each half of a time interval, corrected by a released quadratic in time.",
)  # fmt: skip
SURVIVAL_COUNTS = Template(
    "surv.counts", _A,
    "Counts are noisy and may be negative or fractional",
    "Numbers at risk, events and survival at a time come from one release.",
)  # fmt: skip
EVENTS_FIRST = Template(
    "surv.first_events", _A,
    "Events at {time:g}, the start of the declared range, count first",
    "Everybody is at risk of them.",
)  # fmt: skip
LOGRANK_NOISE = Template(
    "surv.logrank", _A,
    "The variance of the statistic includes the noise, so the level holds",
    "Noise costs power. Counts are noisy.",
)  # fmt: skip
KERNEL_BAND = Template(
    "kernel.band", _A,
    "The band covers the kernel estimate without privacy, not the true curve",
    "It does not include smoothing bias or sampling error.",
)  # fmt: skip
KERNEL_GAPS = Template(
    "kernel.gaps", _A,
    "Points with too small a noisy sum of kernel weights have no value (nan)",
    "Too few rows are near them. A larger bandwidth, more rows or a larger eps would help.",
)  # fmt: skip
WITHIN_PEOPLE = Template(
    "panel.within", _A,
    "Coefficients are effects within people ({column}); constants of a person are not estimable",
    "Whether a column is constant within people is private, so no column is dropped. The "
    "coefficient of a constant column is then not determined.",
)  # fmt: skip
RELEASED_WEIGHTS = Template(
    "panel.weights", _A,
    "Coefficients are those at the released variance components, which weight the people",
    "Errors in the components make standard errors larger, not coefficients wrong.",
)  # fmt: skip
CLIPPED_PROPENSITY = Template(
    "effect.overlap", _A,
    "{share:.0f} % of the propensities are outside {low:g} to {high:g} and were clipped",
    "Their weights are then too small. The effect is right if the outcome model is; otherwise "
    "clip=(0.02, 0.98) clips fewer, at wider intervals.",
)  # fmt: skip
EFFECT_OF_PEOPLE = Template(
    "effect.people", _A,
    "The effect is an average over people ({column}), each counted once",
    "A person adds the mean over their complete rows.",
)  # fmt: skip
MUNDLAK = Template(
    "panel.mundlak", _A,
    "x is the effect within people ({column}); mean(x) is between minus within",
    "fit.hausman() tests that it is zero. A variable that is constant within people has no effect "
    "within: mundlak=False leaves the means out.",
)  # fmt: skip
MIXTURE = Template(
    "panel.mixture", _A,
    "Effects within and between people are mixed if predictors correlate with intercepts",
    "The mixture is by the released weights. mundlak=True separates the two.",
)  # fmt: skip
FEATURES_INDEPENDENT = Template(
    "bayes.independent", _A,
    "Features are independent within a class; variances are {variances}",
    "If features are correlated, predicted probabilities are too close to 0 and 1.",
)  # fmt: skip
SUBSPACE = Template(
    "components.subspace", _A,
    "Only the subspace is estimated; loadings are in {units} of the columns",
    "Within the subspace the axes are the eigenvectors of the released projector.",
)  # fmt: skip
RESAMPLED = Template(
    "noised.resampled", _A,
    "Standard errors are the spread of {count} fits to resampled released rows",
    "They cost nothing. The noise is large here: the smallest eigenvalue of the noise-corrected "
    "moments is only {signal:.2g} times its standard error. From {least:g} times on the usual "
    "sandwich errors are used.",
)  # fmt: skip
READ_FROM_MOMENTS = Template(
    "table.from_moments", _A,
    "Computed from released moments, at no cost",
    "A row with any missing cell among the columns of the moments is in the cell (missing). Errors "
    "of group means use the standard deviation of all rows, as that within groups is not released.",
)  # fmt: skip
CLUSTER_EFFECTS = Template(
    "weights.design_effects", _A, "Design effect of the PSUs (released): {effects}", "{more}",
)  # fmt: skip
PLAIN_NOTE = Template("plain", _A, "{text}", "{more}")


# -- Detail: how a number was computed -------------------------------------------------------------

SHRUNK_PREDICTIONS = Template(
    "predict.shrunk", _D,
    "Predictions use shrunken coefficients: {names} (fit.shrunk)",
    "Shrinking noisy coefficients improves prediction.",
)  # fmt: skip
STANDARD_ERROR = Template(
    "errors.parts", _D,
    "Standard error² = sampling² + privacy²{bias}",
    "sampling: estimated from private releases (fit.ledger). privacy: {privacy}.",
)  # fmt: skip
LARGEST_SHARE = Template(
    "privacy.share", _D, "Privacy noise is at most {share} of a coefficient's variance: {name}",
    "More rows or a larger ε reduces it.{plan}",
)  # fmt: skip
CONVERTED = Template(
    "privacy.converted", _D,
    "The guarantee is converted from a proof for adding or removing one row",
    "A replaced row counts as one row removed and one added, which the charge includes.",
)  # fmt: skip
NOTHING_SPENT = Template(
    "output.absent", _D, "Not released by this method: {names}",
)  # fmt: skip
NOT_DERIVED = Template(
    "output.not_derived", _D, "Not reported: {names} ({why})",
)  # fmt: skip
PROOF = Template(
    "proof.registered", _D, "Privacy proof: {name} ({file}, section {section})",
)  # fmt: skip
REFERENCE = Template(
    "inference.normal", _D, "P and intervals use the {distribution} distribution{tested}",
)  # fmt: skip
METHOD_CHOICE = Template("method.choice", _D, "{text}", "{more}")
ESTIMATOR = Template("noised.estimator", _D, "Estimator: {title}")
R_SQUARED = Template(
    "r2.definition", _D,
    "R-squared is from the last iteration; its interval includes the privacy noise",
    "It compares the variance of fitted values with that plus the residual variance. Extreme rows "
    "are down-weighted; the interval assumes normal data.",
)  # fmt: skip
DEVIANCE = Template(
    "deviance.clipped", _D,
    "Deviance: each row is cut at {most:g} dispersions, about {cut:.3g} in total",
    "This total is estimated from the released histogram of score lengths. It is not added to the "
    "deviance. The errors of deviance and pseudo R-squared allow for it.{low}",
)  # fmt: skip
CONSISTENT_COUNTS = Template(
    "table.consistent", _D,
    "Counts sum to n, so they can be fractional or negative",
    "Margins are sums of cells.",
)  # fmt: skip
TABLE_QUANTILES = Template(
    "table.quantiles", _D,
    "Quantiles by the exponential mechanism; dp_quantile gives intervals",
    "They have no intervals here.",
)  # fmt: skip
SURVIVAL_SCALE = Template(
    "surv.scale", _D, "Intervals are symmetric on the {scale} scale{default}",
)  # fmt: skip
STRATIFIED = Template(
    "surv.stratified", _D,
    "Groups are compared within {count} strata",
    "Differences between strata do not enter the test.",
)  # fmt: skip
BOOTSTRAP = Template(
    "ssp.bootstrap", _D,
    "Standard errors are from a parametric bootstrap of released numbers ({draws} draws)",
    "They are half the width of the central 95 % of the deviations, divided by 1.96.",
)  # fmt: skip
SMOOTHED_KINKS = Template(
    "noised.kinks", _D,
    "Kinks of the {loss} loss are smoothed with width h = {h:.4g}",
    "Without smoothing the noise cannot be corrected for. h= sets another width.",
)  # fmt: skip
ONE_COVARIANCE = Template(
    "noised.one_covariance", _D,
    "Sampling and privacy errors are not separated for this loss",
    "The standard error contains both.",
)  # fmt: skip
ORDINAL_SLOPES = Template(
    "choice.ordinal", _D,
    "Slopes are log odds of a higher level, as in R's polr",
    "P(y <= k) = F(threshold - x'b).",
)  # fmt: skip
MULTINOMIAL_BASE = Template(
    "choice.base", _D,
    "Coefficients are log odds of each level against {base!r}, the first declared",
    "The log odds of two other levels are the difference of their coefficients.",
)  # fmt: skip
CELL_MEANS = Template(
    "kernel.cells", _D, "Cell means; predict() interpolates between the mid-points of cells",
)  # fmt: skip
CHI_SQUARED = Template(
    "test.chi_squared", _D,
    "P uses the chi-squared distribution; the variance includes sampling and noise",
)  # fmt: skip


def catalogue() -> tuple[Template, ...]:
    """Return all templates, in the order in which notes of one severity are shown."""
    return tuple(value for value in globals().values() if isinstance(value, Template))


_PLACES = {template.code: place for place, template in enumerate(catalogue())}


def sort_notes(notes: list[Note]) -> list[Note]:
    """Return notes by severity, then by their position in the catalogue."""
    return sorted(notes, key=lambda n: (-n.severity, _PLACES.get(n.code, _PLACES["plain"])))
