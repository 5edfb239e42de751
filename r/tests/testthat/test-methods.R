skip_without_python()
rows <- made_rows()
fit <- seeded(dp_lm(y ~ x + g, rows, eps = 1, delta = 1e-6, schema = declared, seed = 3))

test_that("the methods of R read released numbers", {
  expect_named(coef(fit), c("Intercept", "x", "g[T.b]", "g[T.c]"))
  expect_identical(dim(vcov(fit)), c(4L, 4L))
  expect_equal(sqrt(diag(vcov(fit))), setNames(tidy(fit)$std.error, names(coef(fit))))
  expect_equal(vcov(fit, "sampling") + vcov(fit, "privacy"), vcov(fit), tolerance = 1e-9)
  expect_identical(confint(fit, "x"), confint(fit)["x", , drop = FALSE])
  expect_true(all(confint(fit, level = 0.9)[, 1] > confint(fit)[, 1]))
  expect_identical(colnames(confint(fit, level = 0.9)), c("5 %", "95 %"))
  expect_identical(nobs(fit), 4000)
  expect_output(print(fit), "Differentially private linear regression")
  expect_output(print(summary(fit, full = TRUE)), "Notes:")
  expect_identical(class(fit), c("dp_ols", "dp_fit"))
})

test_that("tidy and glance are those of generics and broom", {
  expect_true(all(c("term", "estimate", "std.error", "conf.low", "conf.high") %in% names(tidy(fit))))
  expect_identical(tidy(fit)$estimate, unname(coef(fit)))
  expect_false("conf.low" %in% names(tidy(fit, conf.int = FALSE)))
  expect_true(all(c("nobs", "eps", "delta", "r.squared") %in% names(glance(fit))))
  expect_identical(nrow(glance(fit)), 1L)
  skip_if_not_installed("broom")
  expect_equal(as.data.frame(broom::tidy(fit)), tidy(fit))
  expect_equal(names(tidy(stats::lm(y ~ x, rows)))[1:2], c("term", "estimate"))
})

test_that("predictions are shaped as those of lm", {
  new <- data.frame(x = c(0.25, 0.75), g = c("a", "c"), row.names = c("first", "second"))
  at <- predict(fit, new)
  expect_named(at, c("first", "second"))
  by_hand <- dp_result(fit, "shrunk")
  expect_equal(at[["first"]], by_hand[["Intercept"]] + 0.25 * by_hand[["x"]], tolerance = 1e-9)
  band <- predict(fit, new, interval = "confidence")
  expect_identical(dimnames(band), list(c("first", "second"), c("fit", "lwr", "upr")))
  both <- predict(fit, new, se.fit = TRUE)
  expect_named(both, c("fit", "se.fit"))
  expect_equal(both$fit, at)
  expect_error(predict(fit), "needs newdata")
  expect_warning(predict(fit, data.frame(x = 4, g = "a")), "predict: ", class = "UtilityWarning")
  logit <- seeded(dp_glm(y > 0.7 ~ x, rows, eps = 1, delta = 1e-6, schema = declared, seed = 3))
  expect_equal(unname(predict(logit, new, type = "response")),
               unname(stats::plogis(predict(logit, new, type = "link"))), tolerance = 1e-9)
})

test_that("pictures are drawn", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_silent(plot(fit))
  curves <- seeded(dp_survfit(Surv(time, dead) ~ g, rows, eps = 1, delta = 1e-6, schema = declared,
                              seed = 3))
  expect_silent(plot(curves, main = "Survival"))
  expect_silent(plot(seeded(dp_table(~g, rows, eps = 1, delta = 0, schema = declared, seed = 3))))
})

test_that("a result without a function of its own is asked by name", {
  expect_s3_class(dp_result(fit, "errors"), "data.frame")
  expect_identical(rownames(dp_result(fit, "errors")), names(coef(fit)))
  expect_output(print(dp_result(fit, "wald_test", "g")), "chi2")
  expect_output(print(dp_result(fit, "ledger")), "Privacy ledger")
  expect_identical(dp_result(fit, "method"), "ssp")
})
