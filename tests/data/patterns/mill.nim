import strutils
type
  Mill* = object
    name: string
proc grind*(m: Mill, n: int): int =
  ## Grinds grain into flour.
  result = n
