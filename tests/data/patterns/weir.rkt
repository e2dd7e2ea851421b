#lang racket
(require racket/list)
;; Adds water to the weir.
(define (fill weir amount)
  (define x 1)
  (+ weir amount))
(struct gate (name level))
