package require Tcl
# Docks a ship.
proc ::harbor::dock {ship {berth 1}} {
    # an unclosed { in a comment
    return "$ship \{"
}
