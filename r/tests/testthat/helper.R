# The Python that has dpmodels: RETICULATE_PYTHON, or what reticulate finds.
python_is_there <- function() {
  tryCatch(!is.null(reticulate::import("dpmodels.interop.r")), error = function(e) FALSE)
}
skip_without_python <- function() {
  if (nzchar(Sys.getenv("DPMODELS_CI")) || python_is_there()) return(invisible())
  skip("Python has no dpmodels: set RETICULATE_PYTHON")
}

# Rows whose numbers are exact in text, so that a CSV file carries them to Python unchanged.
made_rows <- function(n = 4000, seed = 20261127) {
  set.seed(seed)
  grid <- function(x) round(x * 1024) / 1024
  rows <- data.frame(x = grid(runif(n)), z = sample(0:9, n, TRUE),
                     g = sample(c("a", "b", "c"), n, TRUE), id = rep(seq_len(n / 2), 2))
  rows$y <- grid(pmin(pmax(rows$x + 0.05 * rows$z + rnorm(n, 0, 0.2), -1), 3))
  rows$time <- grid(pmin(rexp(n, 0.1 + 0.1 * rows$x), 12))
  rows$dead <- as.integer(rows$time < 12)
  rows
}
declared <- list(x = c(0, 1), z = c(0, 9), g = c("a", "b", "c"), y = c(-1, 3), time = c(0, 12),
                 dead = c(0, 1), when = as.Date(c("2020-01-01", "2021-01-01")),
                 ok = c(FALSE, TRUE))

# A warning of the seed is not what a test is about.
seeded <- function(call) withCallingHandlers(
  call, NotPrivateWarning = function(w) invokeRestart("muffleWarning")
)
message_of <- function(call) tryCatch({ call; "" }, error = conditionMessage)
