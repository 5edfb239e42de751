# Methods of a fit and of a budget. They read released numbers, and cost nothing.

print.dp_fit <- function(x, ...) {
  print(summary(x, ...))
  invisible(x)
}

summary.dp_fit <- function(object, level = NULL, full = FALSE, exponentiate = FALSE, ...) {
  asked <- list(level = level, full = if (full) TRUE, exponentiate = if (exponentiate) TRUE, ...)
  written <- as_text(python("summary", arguments_of(asked), object$record))
  written$coefficients <- coefficient_table(tidy.dp_fit(object))
  written
}

# The matrix that coef(summary(fit)) has in R; of results without tests, the columns that there are.
coefficient_table <- function(numbers) {
  columns <- c(Estimate = "estimate", "Std. Error" = "std.error", "z value" = "statistic",
               "Pr(>|z|)" = "p.value")
  columns <- columns[columns %in% names(numbers)]
  cells <- as.matrix(numbers[columns])
  dimnames(cells) <- list(numbers$term, names(columns))
  cells
}

# Text to print, with the parts of a result, or with the object of Python that is asked for them.
as_text <- function(sent) structure(lapply(sent, shaped), class = "dp_text")

print.dp_text <- function(x, ...) {
  cat(gsub("=True\\b", "=TRUE", x$text), "\n", sep = "")
  invisible(x)
}

print.dp_plan <- print.dp_text

coef.dp_fit <- function(object, ...) as_named(python("params", record = object$record))

vcov.dp_fit <- function(object, kind = "total", ...) {
  as_matrix(python("vcov", list(kind = kind), object$record))
}

confint.dp_fit <- function(object, parm, level = NULL, ...) {
  ends <- as_matrix(python("conf_int", arguments_of(list(level = level, ...)), object$record))
  if (missing(parm)) ends else ends[parm, , drop = FALSE]
}

nobs.dp_fit <- function(object, ...) object$nobs

predict.dp_fit <- function(object, newdata, type = NULL, se.fit = FALSE, interval = NULL,
                           level = NULL, ...) {
  if (missing(newdata)) {
    refuse("predict() needs newdata: a fit keeps no rows")
  }
  if (identical(interval, "none")) interval <- NULL
  asked <- arguments_of(list(
    what = if (!identical(type, "response")) type, se_fit = if (se.fit) TRUE, interval = interval,
    level = level, ...
  ))
  sent <- python("predict", c(asked, list(new = data_argument(newdata))), object$record)
  if (!is.null(sent$values)) {
    return(setNames(vector_of(sent$values), row_names(newdata)))
  }
  fitted <- as_matrix(sent)
  rownames(fitted) <- row_names(newdata)
  if (!se.fit) {
    return(fitted)
  }
  middle <- fitted[, colnames(fitted) != "se_fit", drop = TRUE]
  list(fit = middle, se.fit = fitted[, "se_fit"])
}

row_names <- function(data) if (is.data.frame(data)) row.names(data)

# Tidy a private fit, and glance at it.
tidy <- function(x, ...) {
  if (requireNamespace("generics", quietly = TRUE)) generics::tidy(x, ...) else UseMethod("tidy")
}

glance <- function(x, ...) {
  if (requireNamespace("generics", quietly = TRUE)) generics::glance(x, ...) else UseMethod("glance")
}

tidy.dp_fit <- function(x, conf.int = TRUE, conf.level = NULL, exponentiate = FALSE, ...) {
  asked <- list(conf_int = conf.int, level = conf.level,
                exponentiate = if (exponentiate) TRUE, style = "r", ...)
  as_frame(python("tidy", arguments_of(asked), x$record))
}

tidy.dp_text <- function(x, ...) {
  object <- owner_of(x)
  name <- if (reticulate::py_has_attr(object, "tidy")) "tidy" else "to_frame"
  frame <- as_frame(python(name, arguments_of(list(...)), object))
  setNames(frame, gsub("_", ".", names(frame)))
}

glance.dp_fit <- function(x, ...) as_frame(python("glance", list(style = "r"), x$record))

print.dp_budget <- function(x, ...) {
  print(summary(x))
  invisible(x)
}

summary.dp_budget <- function(object, ...) {
  structure(list(text = python("as_text", record = budget_object(object))), class = "dp_text")
}

tidy.dp_budget <- function(x, ...) as_frame(python("to_frame", record = budget_object(x)))

plot.dp_fit <- function(x, level = NULL, joint = NULL, ...) {
  asked <- list(x, conf.level = level, joint = joint)
  shares <- grepl("cause=", x$formula) # of events: their curves begin at 0, those of survival at 1
  draw(do.call(tidy, asked[!vapply(asked, is.null, NA)]), first = if (shares) 0 else 1, ...)
  invisible(x)
}

plot.dp_text <- function(x, ...) {
  draw(tidy(x), ...)
  invisible(x)
}

draw <- function(drawn, first = 1, ...) {
  if (all(c("time", "conf.low") %in% names(drawn))) {
    plot_curves(drawn, first, ...)
  } else {
    plot_estimates(drawn, ...)
  }
}

# Steps by group, with the band of their intervals.
plot_curves <- function(drawn, first, xlab = "Time",
                        ylab = if (first == 1) "Survival" else "Cumulative incidence", ...) {
  groups <- if (is.null(drawn$strata)) drawn[[1]] else drawn$strata
  if (names(drawn)[1] == "time" && is.null(drawn$strata)) groups <- rep("", nrow(drawn))
  plot(range(0, drawn$time), 0:1, type = "n", xlab = xlab, ylab = ylab, ...)
  for (place in seq_along(unique(groups))) {
    one <- drawn[groups == unique(groups)[place], ]
    steps <- function(values, ...) {
      lines(c(0, one$time), c(first, values), type = "s", col = place, ...)
    }
    steps(one$estimate, lwd = 2)
    steps(one$conf.low, lty = 3)
    steps(one$conf.high, lty = 3)
  }
  if (any(groups != "")) {
    legend(if (first == 1) "bottomleft" else "topleft", unique(groups), col = seq_along(unique(groups)), lwd = 2, bty = "n")
  }
}

# A point and an interval for each estimate, the first on top.
plot_estimates <- function(drawn, xlab = "Estimate", ylab = "", ...) {
  place <- rev(seq_len(nrow(drawn)))
  margins <- par("mar")
  on.exit(par(mar = margins))
  par(mar = margins + c(0, max(nchar(drawn$term), 0) / 2.5, 0, 0))
  ends <- range(0, drawn$estimate, drawn$conf.low, drawn$conf.high, na.rm = TRUE)
  plot(ends, range(place) + c(-0.5, 0.5), type = "n", yaxt = "n", xlab = xlab, ylab = ylab, ...)
  abline(v = 0, lty = 3)
  axis(2, place, drawn$term, las = 1)
  segments(drawn$conf.low, place, drawn$conf.high, place)
  points(drawn$estimate, place, pch = 19)
}

# Balance before and after weighting, and the propensity of both arms.
plot.dp_ate <- function(x, ...) {
  balance <- dp_result(x, "balance")
  cells <- dp_result(x, "overlap")
  margins <- par("mar")
  layout(matrix(1:2, 1))
  on.exit({
    layout(1)
    par(mar = margins)
  })
  par(mar = margins + c(0, max(nchar(rownames(balance)), 0) / 2.5, 0, 0))
  plot_balance(balance, ...)
  par(mar = margins)
  width <- cells$high - cells$low
  heights <- cbind(cells$treated, -cells$control) / width
  heights <- cbind(pmax(heights[, 1], 0), pmin(heights[, 2], 0))
  shades <- c(treated = "grey40", control = "grey85")
  barplot(heights[, 1], width, space = 0, col = shades[1], ylim = range(heights), yaxt = "n",
          xlab = "propensity")
  barplot(heights[, 2], width, space = 0, col = shades[2], yaxt = "n", add = TRUE)
  legend("topright", names(shades), fill = shades, bty = "n")
  axis(1)
  invisible(x)
}

# Standardised mean differences, with one sd of their noise.
plot_balance <- function(balance, xlab = "standardised mean difference", ylab = "", ...) {
  place <- rev(seq_len(nrow(balance)))
  both <- list(
    "before weighting" = list(balance$difference, balance$noise, 1),
    "after weighting" = list(balance$weighted_difference, balance$weighted_noise, 19)
  )
  ends <- range(-0.1, 0.1, lapply(both, function(one) c(one[[1]] - one[[2]], one[[1]] + one[[2]])))
  plot(ends, range(place) + c(-0.5, 0.5), type = "n", yaxt = "n", xlab = xlab, ylab = ylab, ...)
  abline(v = c(-0.1, 0, 0.1), lty = c(3, 1, 3), col = "grey")
  axis(2, place, rownames(balance), las = 1)
  for (one in both) {
    segments(one[[1]] - one[[2]], place, one[[1]] + one[[2]], place)
    points(one[[1]], place, pch = one[[3]])
  }
  legend("bottomright", names(both), pch = c(1, 19), bty = "n")
}

# What Python sent of any result, as R has it.
shaped <- function(sent) {
  if (!is.list(sent)) {
    return(sent)
  }
  if (!is.null(sent$cells)) {
    frame <- as_frame(sent)
    rows <- unlist(sent$rows)
    if (!identical(rows, as.character(seq_along(rows) - 1))) {
      rownames(frame) <- make.unique(as_term(rows))
    }
    return(frame)
  }
  if (!is.null(sent$record)) return(as_fit(sent))
  if (!is.null(sent$values) && !is.null(sent$names)) return(as_named(sent))
  if (!is.null(sent$text)) return(as_text(sent))
  lapply(sent, shaped)
}
