skip_without_python()
rows <- made_rows()
rows$why <- ifelse(rows$dead == 1, ifelse(rows$z > 4, "relapse", "death"), "censored")
declared$why <- c("censored", "relapse", "death")
# The released numbers of a call of Python with the same rows and seed.
reticulate::py_run_string("
import warnings
import dpmodels as dp
from dpmodels.interop.r import table
def numbers(verb, formula, columns, schema, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        fit = getattr(dp, verb)(formula, table(columns['names'], columns['r_columns']), eps=2, delta=1e-6, seed=7,
                                schema={k: dp.Levels(v) if isinstance(v[0], str) else v for k, v in schema.items()},
                                **arguments)
    return dict(params=fit.params.tolist(), text=str(fit.summary()))
")
python_numbers <- function(verb, formula, schema, ...) {
  main <- reticulate::import_main()
  main$numbers(verb, formula, dpmodels:::columns(rows), lapply(schema, as.list), ...)
}
expect_same <- function(verb, formula, name, text, facts, ...) {
  declared <- declared[facts]
  here <- seeded(verb(formula, rows, eps = 2, delta = 1e-6, schema = declared, seed = 7, ...))
  there <- python_numbers(name, text, declared, ...)
  expect_s3_class(here, c(name, "dp_fit"), exact = TRUE)
  expect_equal(unname(coef(here)), there$params, tolerance = 1e-12)
  expect_identical(summary(here)$text, there$text)
}

test_that("each verb is that of Python", {
  expect_same(dp_survdiff, Surv(time, dead == 1) ~ g, "dp_survdiff", "Surv(time, dead == 1) ~ g", c("time", "g"))
  expect_same(dp_test, y ~ g, "dp_test", "y ~ g", c("y", "g"))
  expect_same(dp_test, y ~ 1, "dp_test", "y ~ 1", "y", mu0 = 0.5)
  expect_same(dp_feols, y ~ x | id, "dp_feols", "y ~ x | id", c("x", "y"), unit = "id")
  expect_same(dp_fepois, z ~ x | id, "dp_fepois", "z ~ x | id", c("x", "z"), unit = "id")
  expect_same(dp_iv, y ~ x | z, "dp_iv", "y ~ x | z", c("x", "y", "z"))
  expect_same(dp_quantile, ~ x + y, "dp_quantile", "~ x + y", c("x", "y"), q = 0.25)
  expect_same(dp_moments, ~ x + y + z, "dp_moments", "~ x + y + z", c("x", "y", "z"))
  expect_same(dp_multinom, g ~ x, "dp_multinom", "g ~ x", c("x", "g"))
  ordered <- c(declared["x"], list(g = list(type = "ordered", levels = c("a", "b", "c"))))
  expect_named(coef(seeded(dp_polr(g ~ x, rows, eps = 2, delta = 1e-6, schema = ordered, seed = 7))),
               c("x", "a|b", "b|c"))
})

test_that("causes that compete are those of Python", {
  facts <- c("time", "why", "g")
  expect_same(dp_survfit, Surv(time, why) ~ g, "dp_survfit", "Surv(time, why) ~ g", facts, cause = "all")
  expect_same(dp_survdiff, Surv(time, why) ~ g, "dp_survdiff", "Surv(time, why) ~ g", facts, cause = "death")
  expect_same(dp_coxph, Surv(time, why) ~ g, "dp_coxph", "Surv(time, why) ~ g", facts, cause = "death")
})

test_that("arguments of R stand where they stood", {
  expect_identical(names(formals(dp_lm)), c("formula", "data", "eps", "delta", "schema", "bounds", "budget", "seed", "..."))
  expect_identical(formals(dp_glm)$family, "binomial")
  expect_identical(names(formals(dp_ate))[5:7], c("treatment", "propensity", "estimand"))
})

test_that("a release is the data of later fits, of pools and of tables, and is read from a file", {
  moments <- dp_moments(~ y + x + z, rows, eps = 2, delta = 1e-6, schema = declared)
  one <- dp_lm(y ~ x, moments)
  both <- dp_pool(list(moments, moments), names = c("Leeds", "York"))
  expect_identical(nobs(both), 8000)
  expect_equal(coef(dp_lm(y ~ x, both)), coef(one), tolerance = 1e-9)
  expect_match(both$statement, "York")
  expect_identical(nrow(both$ledger), 2L * nrow(moments$ledger))
  path <- tempfile(fileext = ".json")
  writeLines(one$record, path)
  expect_identical(dp_load(path), one)
  printed <- etable(one, dp_lm(y ~ x + z, moments), headers = c("A", "B"), stars = TRUE)
  expect_output(print(printed), "Observations")
  expect_true(all(c("term", "estimate") %in% names(tidy(printed))))
  expect_match(etable(one, type = "tex"), "toprule")
  expect_s3_class(etable(list(one, one), type = "df"), "data.frame")
})

test_that("fits of sites are combined", {
  sites <- split(rows, rep(1:3, length.out = nrow(rows)))
  fits <- lapply(unname(sites), function(part) {
    dp_lm(y ~ x, part, eps = 4, delta = 1e-6, schema = declared)
  })
  all <- dp_meta(fits, names = c("a", "b", "c"), effects = "random")
  expect_output(print(all), "Random effects")
  expect_identical(tidy(all)$term, c("(Intercept)", "x"))
  expect_true(all(c("conf.low", "tau2", "new.low") %in% names(tidy(all))))
  expect_match(dp_result(all, "statement"), "parallel")
  expect_s3_class(unserialize(serialize(all, NULL)), "dp_text")
  expect_match(message_of(tidy(unserialize(serialize(all, NULL)))), "made in this session")
})

fit <- seeded(dp_lm(y ~ x + g, rows, eps = 4, delta = 1e-6, schema = declared, seed = 3))

test_that("statements are those of Python", {
  inside <- dp_hypotheses(fit, "x", equivalence = c(0.5, 1.5))
  expect_output(print(inside), "between 0.5 and 1.5")
  expect_output(print(dp_hypotheses(fit, equivalence = list(-0.2, NULL))), "Non-inferiority")
  expect_identical(nrow(tidy(dp_hypotheses(fit))), 3L)
  slopes <- dp_result(fit, "avg_slopes")
  expect_identical(tidy(dp_hypotheses(slopes, equivalence = c(-2, 2)))$term[1], "x")
  expect_match(dp_inline(fit, "x"), "95 % CI")
  expect_identical(tidy(dp_hypotheses(fit, "(Intercept)"))$term, "(Intercept)")
  expect_output(print(dp_result(fit, "wald_test", "(Intercept) = 0")), "chi2")
})

test_that("intervals hold together", {
  plain <- confint(fit)
  joint <- confint(fit, joint = TRUE)
  expect_true(all(joint[, 1] < plain[, 1] & joint[, 2] > plain[, 2]))
  expect_equal(tidy(fit, joint = TRUE)$conf.low, unname(joint[, 1]))
  expect_output(print(summary(fit, joint = TRUE)), "hold together")
  new <- data.frame(x = c(0.2, 0.8), g = c("a", "b"))
  band <- predict(fit, new, interval = "confidence", joint = TRUE)
  expect_true(all(band[, "lwr"] < predict(fit, new, interval = "confidence")[, "lwr"]))
  expect_true(all(tidy(fit, adjust = "holm")$p.value >= tidy(fit)$p.value))
})

test_that("curves are adjusted, and drawn from where they begin", {
  facts <- declared[c("time", "why", "x", "g")]
  cox <- seeded(dp_coxph(Surv(time, why) ~ x + g, rows, eps = 4, delta = 1e-6, schema = facts,
                         cause = "death", seed = 3))
  curves <- dp_adjusted_curves(cox, "g", over = data.frame(x = c(0.2, 0.8)), times = c(3, 6))
  expect_identical(tidy(curves)$g, rep(c("a", "b", "c"), each = 2))
  expect_identical(nrow(tidy(dp_result(curves, "pairs"))), 6L)
  cells <- seeded(dp_table(~x, rows, eps = 2, delta = 1e-6, schema = facts, seed = 3))
  expect_match(message_of(dp_adjusted_curves(cox, "g", over = cells)), "x")
  shares <- seeded(dp_survfit(Surv(time, why) ~ g, rows, eps = 4, delta = 1e-6, schema = facts,
                              cause = "death", seed = 3))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_silent(plot(curves))
  expect_silent(plot(shares, joint = TRUE))
  expect_silent(plot(fit, joint = TRUE))
  expect_silent(plot(dp_hypotheses(fit)))
})

test_that("the gain of an attacker is explained", {
  expect_output(print(dp_explain(fit)), "Gain of an attacker")
  expect_identical(round(dp_result(dp_explain(eps = 1), "right"), 4), 0.7311)
  budget <- dp_budget(1, 1e-6)
  dp_mean(~x, rows, eps = 0.5, delta = 1e-7, schema = declared, budget = budget)
  expect_true(all(tidy(dp_explain(budget))$power < 0.5))
})

test_that("levels are bought", {
  found <- suppressWarnings(dp_levels("g", rows, eps = 2, delta = 1e-6, seed = 1))
  expect_setequal(found$g$levels, c("a", "b", "c"))
  again <- seeded(dp_lm(y ~ g, rows, eps = 2, delta = 1e-6, schema = c(declared["y"], found["g"]), seed = 1))
  expect_length(coef(again), 3)
  expect_true("ssp" %in% dp_methods()$method)
})

test_that("a study is checked, run once on its budget, verified and joined", {
  folder <- tempfile()
  dir.create(folder)
  old <- setwd(folder)
  on.exit(setwd(old))
  expect_match(dp_study("new", y ~ x), "y ~ x", fixed = TRUE)
  writeLines(c(
    "[study]", "title = \"Slopes\"", "sites = [\"a\", \"b\"]", "[data]", "n = 2000",
    "[budget]", "eps = 2", "delta = 1e-6", "[schema.x]", "type = \"real\"", "lower = 0", "upper = 1",
    "[schema.y]", "type = \"real\"", "lower = -1", "upper = 3", "[[release]]", "name = \"slope\"",
    "verb = \"ols\"", "formula = \"y ~ x\"", "eps = 1"
  ), "study.toml")
  expect_output(print(dp_study("check", "study.toml")), "can run")
  expect_output(print(dp_study("rehearse", "study.toml", out = "rehearsal")), "REHEARSAL")
  for (site in c("a", "b")) {
    part <- rows[if (site == "a") 1:2000 else 2001:4000, ]
    ran <- dp_study("run", "study.toml", part, ledger = paste0(site, ".ledger"), out = site)
    expect_s3_class(ran$slope, "dp_ols")
  }
  again <- dp_study("run", "study.toml", part, ledger = "b.ledger", out = "b")
  expect_identical(coef(again$slope), coef(ran$slope))
  expect_identical(unique(tidy(dp_budget(path = "b.ledger"))$call.eps), unique(ran$slope$ledger$call.eps))
  expect_output(print(dp_study("verify", "b", ledger = "b.ledger")), "holds")
  joined <- dp_study("join", c("a", "b"), overlap = TRUE)
  expect_output(print(joined), "All releases together")
  expect_identical(tidy(joined$slope)$term, c("(Intercept)", "x"))
  expect_error(dp_study("rum", "study.toml"), "a step is new", class = "dpmodels_error")
  expect_error(dp_study("check", "none.toml"), class = "StudyError")
})
