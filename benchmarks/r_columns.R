# Seconds to hand a million rows from R to Python, and to fit them, beside R's own lm().
#
#     RETICULATE_PYTHON=.venv/bin/python Rscript benchmarks/r_columns.R
library(dpmodels)
set.seed(1)
n <- 1e6
rows <- data.frame(
  x = runif(n), k = sample(c(0:9, NA), n, TRUE), g = sample(c("a", "b", "c", NA), n, TRUE),
  f = factor(sample(c("u", "v"), n, TRUE)), ok = runif(n) > 0.5,
  when = as.Date("2020-01-01") + sample(300, n, TRUE), id = paste0("p", sample(n / 5, n, TRUE))
)
rows$y <- rows$x + rnorm(n, 0, 0.2)
python <- reticulate::import("dpmodels.interop.r", convert = FALSE)
schema <- list(x = c(0, 1), k = c(0, 9), g = c("a", "b", "c"), f = c("u", "v"), y = c(-1, 2))
five <- rows[c("y", "x", "k", "g", "f")]
send <- function(data) {
  sent <- dpmodels:::columns(data)
  python$table(sent$names, sent$r_columns)
}
seconds <- function(call) {
  call <- substitute(call)
  frame <- parent.frame()
  median(vapply(1:5, function(i) system.time(eval(call, frame))[["elapsed"]], 0))
}
invisible(dp_lm(y ~ x, five, eps = 1, delta = 1e-7, schema = schema)) # loads everything
took <- c(
  "send 5 columns: 2 doubles, integer, text, factor" = seconds(send(five)),
  "send 8 columns: also logical, date, 200 000 ids" = seconds(send(rows)),
  "`dp_lm(y ~ x + k + g + f)`, with sending" =
    seconds(dp_lm(y ~ x + k + g + f, five, eps = 1, delta = 1e-7, schema = schema)),
  "`lm(y ~ x + k + g + f)`" = seconds(lm(y ~ x + k + g + f, five))
)
cat("| a million rows | seconds | times `lm` |\n|---|---|---|\n")
cat(sprintf("| %s | %.2f | %.2f |\n", names(took), took, took / took[4]), sep = "")
