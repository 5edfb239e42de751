skip_without_python()

# The same rows in both: R hands them over as columns, Python reads the file.
rows <- made_rows()
rows$ok <- rep(c(TRUE, FALSE, NA, TRUE), length.out = nrow(rows))
rows$when <- as.Date("2020-01-01") + (seq_len(nrow(rows)) %% 300)
for (name in c("x", "z", "g", "y", "when")) {
  rows[[name]][sample(nrow(rows), 20)] <- NA
}
path <- tempfile(fileext = ".csv")
write.csv(rows, path, row.names = FALSE, na = "")
reticulate::py_run_string(sprintf("
import warnings
import pandas as pd
import dpmodels as dp
rows = pd.read_csv(%s, parse_dates=['when'], dtype={'ok': 'boolean'})
schema = dict(x=(0, 1), z=(0, 9), g=dp.Levels(['a', 'b', 'c']), y=(-1, 3), time=(0, 12), dead=(0, 1),
              when=dp.Date('2020-01-01', '2021-01-01'), ok=dp.Binary())
def fit(verb, formula, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        made = getattr(dp, verb)(formula, rows, eps=1, delta=1e-6, schema=schema, **arguments)
        return dict(nobs=float(made.nobs), params=made.params.tolist(), low=made.conf_int().iloc[:, 0].tolist(),
                    high=made.conf_int().iloc[:, 1].tolist(), mu=made.ledger.to_frame()['mu'].tolist(),
                    what=made.ledger.to_frame()['what'].tolist(), names=list(made.params.index),
                    text=str(made.summary()), vcov=made.vcov().to_numpy().ravel().tolist() if
                    hasattr(made, 'vcov') else [])
", deparse(path)))
python_fit <- reticulate::import_main()$fit

expect_same <- function(fit, verb, formula, ...) {
  there <- python_fit(verb, formula, ...)
  here <- confint(fit)
  near <- function(a, b) expect_equal(as.numeric(a), as.numeric(unlist(b)), tolerance = 1e-12)
  near(coef(fit), there$params)
  near(here[, 1], there$low)
  near(here[, 2], there$high)
  names <- sub("^Intercept$", "(Intercept)", unlist(there$names))
  expect_identical(names(coef(fit)), names)
  expect_identical(rownames(here), names)
  expect_identical(fit$ledger$what, as.character(unlist(there$what)))
  near(fit$ledger$mu, there$mu)
  if (length(there$vcov) > 0) near(vcov(fit), there$vcov)
  expect_identical(summary(fit)$text, there$text)
  expect_identical(nobs(fit), there$nobs)
}
fitted <- function(verb, formula, ...) {
  seeded(verb(formula, rows, eps = 1, delta = 1e-6, schema = declared, seed = 7, ...))
}

test_that("linear models are those of Python", {
  expect_same(fitted(dp_lm, y ~ x + factor(g) + I(x^2) + ok + when), "dp_ols",
              "y ~ x + C(g) + I(x ** 2) + ok + when", seed = 7L)
  expect_same(fitted(dp_lm, y ~ x * z, method = "eptr"), "dp_ols", "y ~ x * z", seed = 7L,
              method = "eptr")
  expect_same(fitted(dp_lm, y ~ x, unit = ~id, subset = ~ z > 2), "dp_ols", "y ~ x", seed = 7L,
              unit = "id", subset = "z > 2")
})

test_that("generalised linear models are those of Python", {
  expect_same(fitted(dp_glm, y > 0.7 ~ x + g), "dp_glm", "I(y > 0.7) ~ x + g", seed = 7L)
  expect_same(fitted(dp_glm, z ~ x, family = poisson), "dp_glm", "z ~ x", seed = 7L, family = "poisson")
  expect_same(fitted(dp_glm, y > 0.7 ~ x, family = binomial("probit")), "dp_glm", "I(y > 0.7) ~ x",
              seed = 7L, link = "probit")
})

test_that("quantile regressions are those of Python", {
  expect_same(fitted(dp_quantreg, y ~ x, tau = 0.25), "dp_quantreg", "y ~ x", seed = 7L, tau = 0.25)
  expect_same(fitted(dp_quantreg, y ~ x, tau = c(0.25, 0.5)), "dp_quantreg", "y ~ x", seed = 7L,
              tau = list(0.25, 0.5))
})

test_that("hazards and curves are those of Python", {
  expect_same(fitted(dp_coxph, Surv(time, dead) ~ x + g), "dp_coxph", "Surv(time, dead) ~ x + g",
              seed = 7L)
  curves <- fitted(dp_survfit, Surv(time, dead == 1) ~ g, times = c(3, 6, 9))
  expect_same(curves, "dp_survfit", "Surv(time, dead == 1) ~ g", seed = 7L, times = list(3, 6, 9))
  expect_identical(names(dp_result(curves, "rmst", tau = 9))[1:3], c("strata", "tau", "estimate"))
})

test_that("tables and means are those of Python", {
  expect_same(fitted(dp_table, ~ g + x, by = "ok"), "dp_table", "~ g + x", seed = 7L, by = "ok")
  expect_same(fitted(dp_table, y ~ g), "dp_table", "y ~ g", seed = 7L)
  expect_same(fitted(dp_mean, ~ x + y), "dp_mean", "~ x + y", seed = 7L)
  expect_same(fitted(dp_mean, c("x", "z")), "dp_mean", list("x", "z"), seed = 7L)
})

test_that("treatment effects are those of Python", {
  expect_same(fitted(dp_ate, y ~ x + I(z^2), treatment = "ok"), "dp_ate", "y ~ x + I(z ** 2)",
              seed = 7L, treatment = "ok")
  in_treated <- suppressWarnings(
    fitted(dp_ate, y > 0.7 ~ x, treatment = ~ g == "a", propensity = ~ x + I(z^2),
           estimand = "ATT", clip = c(0.05, 0.95))
  )
  expect_same(in_treated, "dp_ate", "I(y > 0.7) ~ x", seed = 7L, treatment = "{g == 'a'}",
              propensity = "x + I(z ** 2)", estimand = "ATT", clip = list(0.05, 0.95))
  expect_same(fitted(dp_ate, y ~ 1, treatment = ~ok, subset = ~ z > 2), "dp_ate", "y ~ 1", seed = 7L,
              treatment = "ok", subset = "z > 2")
})

test_that("a file is read by Python, and a variable may be called schema", {
  from_file <- seeded(dp_mean(~x, path, eps = 1, delta = 1e-6, schema = declared, seed = 7))
  expect_equal(coef(from_file), coef(fitted(dp_mean, ~x)), tolerance = 1e-12)
  odd <- data.frame(schema = rows$y, bounds = rows$x)
  expect_equal(
    unname(coef(seeded(dp_lm(schema ~ bounds, odd, eps = 1, delta = 1e-6, seed = 7,
                             schema = list(schema = c(-1, 3), bounds = c(0, 1)))))),
    unname(coef(fitted(dp_lm, y ~ x))), tolerance = 1e-12
  )
})

test_that("plans are those of Python", {
  plan <- dp_plan(y ~ x + factor(g), declared, n = 5000, eps = 1, delta = 1e-6)
  there <- reticulate::py_run_string("
made = dp.plan('y ~ x + C(g)', schema, n=5000, eps=1, delta=1e-6)
planned = dict(text=made.as_text(), se=list(made.expected_se.values()), shares=list(made.shares.values()))
")$planned
  expect_identical(plan$text, there$text)
  expect_equal(plan$columns$privacy_se[seq_along(there$se)], there$se, tolerance = 1e-12)
  expect_equal(unname(plan$shares), there$shares, tolerance = 1e-12)
  expect_output(print(plan), "nothing charged")
  effect <- dp_plan(y ~ x, declared, n = 5000, eps = 1, delta = 1e-6, verb = "dp_ate",
                    treatment = ~ g == "a", propensity = ~ x + z)
  expect_equal(unname(effect$shares["propensity"]), 0.14)
  expect_match(dp_plan(Surv(time, dead) ~ g, declared, n = 5000, eps = 1, delta = 1e-6,
                       verb = "dp_survfit")$text, "no data read")
})

test_that("budgets are those of Python, in memory and in a file", {
  path <- tempfile(fileext = ".ledger")
  for (budget in list(dp_budget(2, 1e-5), dp_budget(2, 1e-5, path = path))) {
    dp_mean(~x, rows, eps = 0.5, delta = 1e-6, schema = declared, budget = budget)
    dp_lm(y ~ x, rows, eps = 0.5, delta = 1e-6, schema = declared, budget = budget)
    there <- reticulate::py_run_string("
budget = dp.Budget(2, 1e-5)
for verb, formula in (('dp_mean', '~ x'), ('dp_ols', 'y ~ x')):
    getattr(dp, verb)(formula, rows, eps=.5, delta=1e-6, schema=schema, budget=budget)
kept = budget.to_frame()
mu, what = kept['mu'].tolist(), kept['what'].tolist()
")
    ledger <- tidy(budget)
    expect_equal(ledger$mu, there$mu, tolerance = 1e-12)
    expect_identical(ledger$what, there$what)
    expect_output(print(budget), "Privacy ledger")
    error <- tryCatch(
      dp_mean(~x, rows, eps = 3, delta = 1e-6, schema = declared, budget = budget), error = identity
    )
    expect_s3_class(error, c("BudgetExceededError", "dpmodels_error", "error"), exact = FALSE)
    expect_equal(tidy(budget), ledger)
  }
  again <- dp_budget(path = path)
  expect_equal(tidy(again)$mu, ledger$mu)
  expect_equal(tidy(unserialize(serialize(again, NULL)))$mu, ledger$mu)
  memory <- unserialize(serialize(dp_budget(1, 1e-6), NULL))
  expect_match(message_of(tidy(memory)), "ends with its session")
})
