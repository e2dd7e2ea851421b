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

#' @export
harbour$depth <- \(at) {
  at
}

# Reads the gauge.
onRequest("/gauge", function(request) {
  level <- function() 1
  level()
})

test_that("the tide turns", {
  half <- function(x) x / 2
  expect_equal(half(2), 1)
})
warn("dry", { 1 })
