package fixture.kiln

import scala.collection.mutable

/** Burns clay. */
class Kiln(degrees: Int) extends Oven {
  private val shelf = mutable.Buffer[Pot]()

  /** Adds a pot. */
  def load(pot: Pot): Unit = {
    shelf += pot
  }

  def size: Int = shelf.size
}

object Kiln {
  val Glazes = Map(
    "ash" -> 1280,
    "salt" -> 1300
  )

  def apply(): Kiln = new Kiln(1000)
}

trait Oven {
  def heat(minutes: Int): Int
}

case class Pot(width: Double)

type Shelf = List[Pot]

// Largest first.
def sorted(pots: Shelf): Shelf = pots.sortBy(-_.width)
