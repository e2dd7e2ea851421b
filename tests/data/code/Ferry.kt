package fixture.ferry

import kotlin.math.max

/** What one trip costs. */
const val FARE = 3

val STOPS = listOf(
    "pier",
    "island",
)

/**
 * Carries people over the river.
 */
@Deprecated("old")
class Ferry(private val seats: Int) : Boat(), Floating {
    constructor(name: String) : this(name.length)

    private var people = 0

    /** Lets somebody board. */
    fun board(count: Int): Boolean {
        people += count
        return people <= seats
    }

    companion object {
        fun small() = Ferry(4)
    }

    enum class Side { LEFT, RIGHT }
}

interface Floating {
    fun depth(): Double
}

object Harbour {
    fun call(ferry: Ferry) = ferry.board(1)
}

data class Ticket(val price: Int)

// Rounds up.
fun Int.crossings(seats: Int): Int = max(1, this / seats)

typealias Fleet = List<Ferry>
