reads <- function(formula, text) expect_identical(dpmodels:::formula_text(formula), text)

test_that("terms of R are terms of Python", {
  reads(y ~ x + factor(g), "y ~ x + C(g)")
  reads(y ~ as.factor(g) * x, "y ~ C(g) * x")
  reads(y ~ I(x^2) + x:g - 1, "y ~ I(x ** 2) + x:g - 1")
  reads(y ~ (a + b + c)^2, "y ~ (a + b + c)**2")
  reads(log(y) ~ 0 + x, "log(y) ~ 0 + x")
  reads(~ a + b, "~ a + b")
  reads(y ~ relevel(g, ref = "b"), "y ~ C(g, Treatment('b'))")
  reads(y ~ C(g, levels = c("a", "b")), "y ~ C(g, levels=['a', 'b'])")
  reads(y ~ ns(x, knots = c(0.25, 1 / 4)), "y ~ ns(x, knots=[0.25, 1 / 4])")
  reads(y ~ poly(x, 3, raw = TRUE) + pmin(x, 0.1), "y ~ poly(x, 3, raw=True) + minimum(x, 0.1)")
  reads(y ~ x + offset(log(e)), "y ~ x + offset(log(e))")
  reads(y ~ x | id, "y ~ x | id")
  reads("y ~ x ** 2", "y ~ x ** 2")
})

test_that("survival and its namespace", {
  reads(Surv(t, d) ~ x, "Surv(t, d) ~ x")
  reads(survival::Surv(t, s == "dead") ~ strata(g), "Surv(t, s == 'dead') ~ strata(g)")
  reads(Surv(from, to, d == 1L) ~ 1, "Surv(`from`, to, d == 1) ~ 1")
})

test_that("comparisons are 0 or 1", {
  reads(y > 0.5 ~ x, "I(y > 0.5) ~ x")
  reads(I(y > 3 & !(x < 2)) ~ x, "I(y > 3 and ~((x < 2))) ~ x")
  reads(g %in% c("a", "b") ~ x, "I(g in ['a', 'b']) ~ x")
  reads(y ~ ifelse(x > 1, 1, 0), "y ~ I(x > 1)")
  reads(y ~ I(x > 1 | z == TRUE), "y ~ I(x > 1 or z == True)")
})

test_that("names, numbers and text are those of Python", {
  reads(y.1 ~ `a b` + class, "`y.1` ~ `a b` + `class`")
  reads(y ~ I(x > 1e-05) + I(x / 1e5) + I(x > 0.1), "y ~ I(x > 1e-05) + I(x / 100000) + I(x > 0.1)")
  reads(y ~ I(g == "it's \\ é"), "y ~ I(g == 'it\\'s \\\\ é')")
  reads(eval(bquote(y ~ I(.(1 / 3) * x))), "y ~ I(0.3333333333333333 * x)")
  reads(y ~ I(-x^2) + I(x - (a - b)), "y ~ I(-x ** 2) + I(x - (a - b))")
})

test_that("formulas that were built keep their meaning without their brackets", {
  sum_of <- quote(a + b)
  reads(eval(bquote(y ~ I(.(sum_of) * x))), "y ~ I((a + b) * x)")
  reads(eval(bquote(y ~ .(sum_of):x)), "y ~ (a + b):x")
  reads(eval(bquote(y ~ I(x - .(sum_of)))), "y ~ I(x - (a + b))")
  reads(eval(bquote(y ~ I((.(quote(-a)))^2))), "y ~ I((-a) ** 2)")
  reads(eval(bquote(y ~ I(.(quote(-a))^2))), "y ~ I((-a) ** 2)")
  reads(eval(bquote(y ~ I(.(quote(a^2))^3))), "y ~ I((a ** 2) ** 3)")
})

test_that("what cannot be read is refused with what to type", {
  expect_error(dpmodels:::formula_text(y ~ .), "Write the terms out", class = "dpmodels_error")
  expect_error(dpmodels:::formula_text(y ~ d$x), "name of the column instead of d\\$x")
  expect_error(dpmodels:::formula_text(y ~ I(x == NA)), "NA cannot be written")
  expect_error(dpmodels:::expression_text(y ~ x), "one side")
})

test_that("one-sided formulas are expressions in other arguments", {
  expect_identical(dpmodels:::expression_text(~ age > 50 & sex == "f"), "age > 50 and sex == 'f'")
  expect_identical(dpmodels:::expression_text(~ person.id), "person.id")
})
