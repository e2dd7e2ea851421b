library(stats)
#' Mean tide of a station
#'
#' @param x heights
#' @export
mean_tide <- function(x,
                      trim = 0) {
  mean(x, trim = trim)
}
half <- function(x) x / 2
setMethod("show", "Tide", function(object) {
  cat("tide\n")
})
