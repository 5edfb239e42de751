skip_without_python()
rows <- made_rows(2000)
reticulate::py_run_string("
import dpmodels as dp
def said(verb, formula, columns, **arguments):
    try:
        getattr(dp, verb)(formula, {name: [0.0] * 5 for name in columns}, **arguments)
    except Exception as error:
        return [type(error).__name__, str(error)]
")
said <- function(verb, formula, ...) {
  reticulate::import_main()$said(verb, formula, as.list(names(rows)), ...)
}
expect_said <- function(call, there) {
  error <- tryCatch(call, error = identity)
  expect_s3_class(error, "dpmodels_error")
  expect_identical(class(error)[1], there[1])
  expect_identical(conditionMessage(error), dpmodels:::in_r(there[2]))
}

test_that("errors of Python are conditions of R with their class and text", {
  expect_said(dp_lm(y ~ zz, rows, eps = 1, delta = 1e-6), said("dp_ols", "y ~ zz", eps = 1L, delta = 1e-6))
  expect_said(dp_lm(y ~ x, rows, eps = -1, delta = 1e-6), said("dp_ols", "y ~ x", eps = -1L, delta = 1e-6))
  expect_said(dp_lm(y ~ x, rows, delta = 1e-6), said("dp_ols", "y ~ x", delta = 1e-6))
  expect_said(dp_glm(y ~ x, rows, eps = 1, delta = 1e-6, family = "binomal"),
              said("dp_glm", "y ~ x", eps = 1L, delta = 1e-6, family = "binomal"))
  expect_said(dp_lm(y ~ poly(x, 2), rows, eps = 1, delta = 1e-6, bounds = list(x = c(0, 1))),
              said("dp_ols", "y ~ poly(x, 2)", eps = 1L, delta = 1e-6, bounds = list(x = list(0L, 1L))))
  expect_said(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, schema = list(x = c(1, 2, 3))),
              said("dp_ols", "y ~ x", eps = 1L, delta = 1e-6, schema = list(x = list(1L, 2L, 3L))))
  expect_said(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, sed = 1),
              said("dp_ols", "y ~ x", eps = 1L, delta = 1e-6, sed = 1L))
})

test_that("arguments that Python cannot have are refused before it is asked", {
  expect_error(dp_lm(y ~ x, rows, eps = NA, delta = 1e-6), "eps holds NA", class = "dpmodels_error")
  expect_error(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, schema = list(c(0, 1))), "a name for each")
  expect_error(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, schema = list(x = c(0, NA))), "holds NA")
  expect_error(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, bounds = list(x = c(0, NA))), "bounds\\$x holds NA")
  expect_error(dp_lm(y ~ x, 1:3, eps = 1, delta = 1e-6), "`data` is a data frame")
  expect_error(dp_lm(y ~ x, rows, 1, 1e-6, NULL, NULL, NULL, NULL, 5), "given by name")
  expect_error(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, weights = mean), "is a function")
  expect_error(dp_glm(y ~ x, rows, eps = 1, delta = 1e-6, family = mean), "family is a name")
  expect_error(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, design = list(weigths = "z")), "Did you mean 'weights'")
})

test_that("nothing about cells is said: odd cells give the same conditions as good ones", {
  said_of <- function(rows) {
    kept <- character()
    withCallingHandlers(
      dp_lm(y ~ x + g, rows, eps = 1, delta = 1e-6, schema = declared),
      warning = function(w) {
        kept <<- c(kept, conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    )
    kept
  }
  odd <- rows
  odd$x[1:3] <- c(Inf, NaN, 1e308)
  odd$g[4:6] <- c("\xff", "no level", NA)
  odd$y[7] <- NA
  odd$z[8] <- NA
  expect_identical(said_of(odd), said_of(rows))
})

test_that("what Python says to type is said as it is typed in R", {
  typed <- function(python, r) expect_identical(dpmodels:::in_r(python), r)
  typed("f = dp.Levels(['a', 'b'])", "f = c('a', 'b')")
  typed("f = dp.Levels([0, 1])", "f = list(type = \"levels\", levels = c(0, 1))")
  typed("schema={'x': (0, 1), 'g': dp.Ordered([...])}",
        "schema=list(x = c(0, 1), g = list(type = \"ordered\", levels = c(...)))")
  typed("{y > 1} ~ I(x**2), raw=True", "y > 1 ~ I(x^2), raw=TRUE")
  typed("equivalence=(-0.5, None)", "equivalence=list(-0.5, NULL)")
  typed("dp.pool([m1, m2]), dp.dp_ols(formula, data, design=dp.Survey(weights='w'))",
        "dp_pool(list(m1, m2)), dp_lm(formula, data, design=list(weights='w'))")
  typed("fit.relevel('age', '15')", "dp_result(fit, \"relevel\", 'age', '15')")
  typed("x has range [0, 1]; g[T.b] of site 1 (1, 2). None is read", "x has range [0, 1]; g[T.b] of site 1 (1, 2). None is read")
})

test_that("the lines of a refusal can be pasted", {
  said <- message_of(dp_lm(y ~ x + g, rows, eps = 1, delta = 1e-6))
  pasted <- sub(".*\n( *schema = list\\(.*\\)).*", "\\1", said)
  expect_identical(names(parse(text = pasted)[[1]][[3]])[-1], c("g", "y", "x"))
  codes <- message_of(dp_lm(y ~ factor(dead), rows, eps = 1, delta = 1e-6, schema = declared))
  expect_match(codes, "dead = list(type = \"levels\", levels = c(0, 1))", fixed = TRUE)
  fixed <- c(declared["y"], list(dead = list(type = "levels", levels = c(0, 1))))
  expect_named(coef(seeded(dp_lm(y ~ dead, rows, eps = 1, delta = 1e-6, schema = fixed, seed = 1))),
               c("(Intercept)", "dead[T.1]"))
  expect_no_match <- function(text) expect_false(grepl("dp\\.|\\{|None|\\*\\*", text))
  expect_no_match(message_of(dp_glm(y ~ x, rows, eps = 1, delta = 1e-6, schema = declared["x"])))
  expect_no_match(message_of(dp_polr(g ~ x, rows, eps = 1, delta = 1e-6, schema = declared)))
  expect_no_match(message_of(dp_coxph(Surv(time, dead) ~ x, rows, eps = 1, delta = 1e-6, schema = declared["x"])))
  expect_no_match(message_of(dp_ate(y ~ x, rows, treatment = "g", eps = 1, delta = 1e-6)))
})
