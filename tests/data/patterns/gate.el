;;; gate.el --- Opens gates  -*- lexical-binding: t -*-
(require 'cl-lib)
(defvar gate-open nil "Whether it is open.")
(defun gate-toggle (gate &optional (x))
  "Open or close GATE, depending on \"state\"."
  (interactive)
  (if (eq ?\( gate) (setq gate-open t)))
