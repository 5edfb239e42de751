skip_without_python()
r <- function() reticulate::import("dpmodels.interop.r")
# What Python sees of columns: type and cells, printed there.
seen <- function(data) {
  main <- reticulate::import_main()
  reticulate::py_run_string(paste(
    "from dpmodels.interop.r import table as _table",
    "def seen(given):",
    "    frame = _table(given['names'], given['r_columns'])",
    "    kind = lambda c: 'category' if c.dtype.name == 'category' else c.dtype.name",
    "    cell = lambda v: '<missing>' if str(v) in ('<NA>', 'NaT', 'nan') else str(v)",
    "    return [[n, kind(frame[n]), [cell(v) for v in frame[n]]] for n in frame.columns]", sep = "\n"
  ))
  lapply(main$seen(dpmodels:::columns(data)), function(one) setNames(one, c("name", "type", "cells")))
}
cells_of <- function(x) seen(list(x = x))[[1]]

test_that("a missing cell is missing in Python, whatever its type, and types do not depend on it", {
  columns <- list(
    c(1.5, NA), c(1L, NA), c(TRUE, NA), c("a", NA), factor(c("b", NA)), as.Date(c("2020-02-29", NA)),
    as.POSIXct(c("2020-02-29 12:30:00", NA), tz = "Europe/Berlin"), I(c(2, NA)),
    structure(c(1, NA), class = c("haven_labelled", "vctrs_vctr", "double"), labels = c(yes = 1)),
    as.difftime(c(1.5, NA), units = "days")
  )
  first <- c("1.5", "1.0", "True", "a", "b", "2020-02-29 00:00:00", "2020-02-29 11:30:00", "2.0", "1.0",
             "1 days 12:00:00")
  for (place in seq_along(columns)) {
    column <- columns[[place]]
    expect_identical(cells_of(column)$cells, c(first[place], "<missing>"))
    expect_identical(cells_of(column)$type, cells_of(column[c(1, 1)])$type)
    expect_identical(cells_of(column)$type, cells_of(column[c(2, 2)])$type)
  }
})

test_that("ranges of dates and of differences of times are declared by themselves", {
  start <- as.Date("2020-01-01") + 0:999 %% 100
  rows <- data.frame(start = start, wait = (start + 0:999 %% 10) - start, seen = as.POSIXct(start))
  declared <- list(start = as.Date(c("2020-01-01", "2020-06-01")),
                   seen = as.POSIXct(c("2020-01-01", "2020-06-01"), tz = "UTC"),
                   wait = as.difftime(c(0, 10), units = "days"))
  fit <- dp_mean(~ start + seen + wait, rows, eps = 100, delta = 1e-6, schema = declared)
  expect_equal(unname(coef(fit)), c(49.5, 49.5, 4.5), tolerance = 0.01)
})

test_that("integers of 64 bits keep their value", {
  wide <- structure(c(5e-324 * 7, NA), class = "integer64")
  wide[2] <- readBin(as.raw(c(0, 0, 0, 0, 0, 0, 0, 128)), "double")
  class(wide) <- "integer64"
  expect_identical(cells_of(wide)$cells, c("7.0", "<missing>"))
})

test_that("text that is not UTF-8 is no level, and no error", {
  odd <- c("a", "\xff\xfe", "caf\xe9", "b")
  Encoding(odd)[3] <- "latin1"
  Encoding(odd)[2] <- "bytes"
  expect_identical(cells_of(odd)$cells, c("a", "\ufffd", "caf\u00e9", "b"))
  Encoding(odd)[2] <- "unknown"
  expect_silent(two <- cells_of(factor(c("NA", odd[4]))))
  expect_identical(two$cells, c("NA", "b"))
})

test_that("dates and times that no calendar has are missing, silently", {
  expect_silent(odd <- cells_of(as.Date(c(1e300, Inf, -Inf, NaN, 0.9), origin = "1970-01-01")))
  expect_identical(odd$cells, c(rep("<missing>", 4), "1970-01-01 00:00:00"))
})

test_that("a column of another class is refused if the call names it, and else left out", {
  rows <- made_rows(2000)
  rows$list <- as.list(rows$x)
  rows$pair <- cbind(rows$x, rows$y)
  fit <- seeded(dp_mean(~x, rows, eps = 1, delta = 1e-6, schema = declared, seed = 1))
  expect_s3_class(fit, "dp_fit")
  expect_match(message_of(dp_lm(pair ~ x, rows, eps = 1, delta = 1e-6)), "column pair is a matrix")
  expect_match(message_of(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6, weights = "list")),
               "column list is a list")
})

test_that("a fit holds no data and no environment", {
  rows <- made_rows(2000)
  fit <- do.call(dp_lm, list(y ~ x, rows, eps = 1, delta = 1e-6, schema = declared))
  inside <- rapply(unclass(fit), function(x) class(x)[1], how = "unlist")
  expect_true(all(inside %in% c("character", "numeric")))
  expect_lt(length(serialize(fit, NULL)), 40000)
  expect_identical(fit, unserialize(serialize(fit, NULL)))
})

test_that("column names that Python would refuse are refused with its text", {
  rows <- setNames(made_rows(2000)[c("x", "y", "y")], c("x", "y", "y"))
  expect_match(message_of(dp_lm(y ~ x, rows, eps = 1, delta = 1e-6)), "two columns are called 'y'")
})
