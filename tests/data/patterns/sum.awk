# Sums a column.
function total(n,   i) {
  return n
}
{ s += $1 }
