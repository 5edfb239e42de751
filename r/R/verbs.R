# The verbs: each hands its arguments to the Python function, and keeps what R keeps of a fit.

# Fit a linear regression with differential privacy.
dp_lm <- function(formula, data, eps = NULL, delta = NULL, schema = NULL, bounds = NULL,
                  budget = NULL, seed = NULL, ...) {
  fit_of("dp_ols", formula, data, eps = eps, delta = delta, schema = schema, bounds = bounds,
         budget = budget, seed = seed, ...)
}

# Fit a generalised linear model with differential privacy.
dp_glm <- function(formula, data, eps = NULL, delta = NULL, family = "binomial", schema = NULL,
                   bounds = NULL, budget = NULL, seed = NULL, ...) {
  fit_of("dp_glm", formula, data, eps = eps, delta = delta, schema = schema, bounds = bounds,
         budget = budget, seed = seed, family = family, ...)
}

# Fit a quantile regression with differential privacy.
dp_quantreg <- function(formula, data, eps = NULL, delta = NULL, tau = 0.5, schema = NULL,
                        bounds = NULL, budget = NULL, seed = NULL, ...) {
  fit_of("dp_quantreg", formula, data, eps = eps, delta = delta, tau = tau, schema = schema,
         bounds = bounds, budget = budget, seed = seed, ...)
}

# Fit proportional hazards with differential privacy.
dp_coxph <- function(formula, data, eps = NULL, delta = NULL, schema = NULL, bounds = NULL,
                     budget = NULL, seed = NULL, ...) {
  fit_of("dp_coxph", formula, data, eps = eps, delta = delta, schema = schema, bounds = bounds,
         budget = budget, seed = seed, ...)
}

# Release survival curves with differential privacy.
dp_survfit <- function(formula, data, eps = NULL, delta = NULL, schema = NULL, bounds = NULL,
                       budget = NULL, seed = NULL, ...) {
  fit_of("dp_survfit", formula, data, eps = eps, delta = delta, schema = schema, bounds = bounds,
         budget = budget, seed = seed, ...)
}

# Release a table with differential privacy.
dp_table <- function(formula, data, eps = NULL, delta = NULL, by = NULL, schema = NULL,
                     bounds = NULL, budget = NULL, seed = NULL, ...) {
  fit_of("dp_table", formula, data, eps = eps, delta = delta, by = by, schema = schema,
         bounds = bounds, budget = budget, seed = seed, ...)
}

# Release means with differential privacy.
dp_mean <- function(formula, data, eps = NULL, delta = NULL, schema = NULL, bounds = NULL,
                    budget = NULL, seed = NULL, ...) {
  fit_of("dp_mean", formula, data, eps = eps, delta = delta, schema = schema, bounds = bounds,
         budget = budget, seed = seed, ...)
}

# Estimate an average treatment effect with differential privacy.
dp_ate <- function(formula, data, treatment, eps = NULL, delta = NULL, propensity = NULL,
                   estimand = "ATE", schema = NULL, bounds = NULL, budget = NULL, seed = NULL,
                   ...) {
  if (missing(treatment)) treatment <- "" # Python says what to type
  fit_of("dp_ate", formula, data, treatment = treatment_text(treatment), eps = eps, delta = delta,
         propensity = right_hand_side(propensity), estimand = estimand, schema = schema,
         bounds = bounds, budget = budget, seed = seed, ...)
}

# A column, or a comparison, which Python wants in braces: ~ arm == "drug" is {arm == 'drug'}.
treatment_text <- function(treatment) {
  if (!inherits(treatment, "formula")) {
    return(treatment)
  }
  text <- expression_text(treatment)
  if (is.name(treatment[[length(treatment)]])) text else paste0("{", text, "}")
}

# A one-sided formula as a formula reads it, so that I(x^2) is I(x ** 2); text as it is.
right_hand_side <- function(formula) {
  if (inherits(formula, "formula")) sub("^~ *", "", formula_text(formula)) else formula
}

# Plan a study before there are data.
dp_plan <- function(formula, schema = NULL, n = NULL, eps = NULL, delta = NULL, verb = "dp_lm",
                    ...) {
  more <- list(...)
  more$treatment <- treatment_text(more$treatment)
  more$propensity <- right_hand_side(more$propensity)
  given <- arguments_of(c(list(
    formula = formula_text(formula), schema = schema, n = n, eps = eps, delta = delta,
    verb = if (identical(verb, "dp_lm")) "dp_ols" else verb
  ), more))
  sent <- python("plan", given)
  structure(
    list(text = sent$text, verdict = sent$verdict, columns = as_frame(sent$columns),
         shares = as_named(sent$shares), scales = as_named(sent$scales)),
    class = "dp_plan"
  )
}

# Keep a privacy budget that several calls are charged to.
dp_budget <- function(eps = NULL, delta = NULL, path = NULL, ...) {
  given <- arguments_of(list(eps = eps, delta = delta, ...))
  if (is.null(path)) {
    return(structure(list(object = python("Budget", given), path = NULL), class = "dp_budget"))
  }
  path <- normalizePath(path, mustWork = FALSE)
  structure(list(object = python("Budget.open", c(list(path = path), given)), path = path),
            class = "dp_budget")
}

# The budget in Python; that of a file is opened again in a later session.
budget_object <- function(budget) {
  if (!is.null(budget$path)) {
    return(python("Budget.open", list(path = budget$path)))
  }
  if (!reticulate::py_is_null_xptr(budget$object)) {
    return(budget$object)
  }
  refuse("a budget in memory ends with its session: keep it in a file, dp_budget(..., path = ",
         "\"study.ledger\")")
}

# Ask a fit for a result that has no function of its own here.
dp_result <- function(fit, name, ...) {
  given <- list(...)
  unnamed <- if (is.null(names(given))) rep(TRUE, length(given)) else names(given) == ""
  positional <- lapply(unname(given[unnamed]), argument, name = "of dp_result")
  shaped(python(name, arguments_of(given[!unnamed]), fit$record, positional))
}

# Run a verb of Python and keep what R keeps of a fit: no data, and no environment that holds any.
fit_of <- function(verb, formula, data, ...) {
  given <- c(list(formula = formula_text(formula)), arguments_of(with_family(list(...))))
  if (length(given$formula) > 1) given$formula <- as.list(given$formula)
  mentioned <- rapply(given, identity, classes = "character", how = "unlist")
  given$data <- data_argument(data, mentioned)
  as_fit(python(verb, given))
}

# A family of R as its names: binomial("probit") is family = "binomial", link = "probit".
with_family <- function(given) {
  family <- given[["family"]]
  if (is.function(family)) {
    family <- tryCatch(family(), error = function(e) {
      refuse("family is a name, or a family of R such as binomial(\"probit\")")
    })
  }
  if (inherits(family, "family")) {
    given$family <- tolower(family$family)
    given$link <- family$link
  }
  given
}

as_fit <- function(sent) {
  structure(
    list(
      record = sent$record, verb = sent$verb, formula = sent$formula,
      nobs = if (is.null(sent$nobs)) NA_real_ else sent$nobs, statement = sent$statement,
      ledger = as_frame(sent$ledger)
    ),
    class = c(sent$verb, "dp_fit")
  )
}

# A data frame, a list of columns, the path of a file, or an object of Python.
data_argument <- function(data, mentioned = NULL) {
  if (inherits(data, "python.builtin.object")) {
    return(data)
  }
  if (is.character(data)) {
    return(if (length(data) > 1) as.list(data) else data)
  }
  if (!is.list(data)) {
    refuse("`data` is a data frame, a list of columns, or the path of a Parquet or CSV file; got ",
           "an object of class ", class(data)[1])
  }
  columns(data, mentioned)
}
