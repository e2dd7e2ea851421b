package org.example.canal

import groovy.transform.CompileStatic
import static java.lang.Math.max

/**
 * Lifts boats from one level to the next.
 */
@CompileStatic
class Locks extends Canal implements Comparable<Locks> {
    private final String name
    int level = 3

    Locks(String name, int level = 1) {
        this.name = name
    }

    /** Lifts all boats,
     *  one after another. */
    def lift(boats, Map options = [:]) {
        boats.each { boat -> boat.level += level }
        println "lifted ${boats.size()} to $level"
    }

    @Override
    int compareTo(Locks other) {
        return level <=> other.level
    }

    static <T> List<T> sorted(List<T> boats) {
        boats.sort { a, b -> a.length <=> b.length }
    }

    // Rings the bell.
    def ring = { times ->
        times.times { println 'ding' }
    }

    enum Gate {
        UPPER, LOWER
        boolean opens() { this == UPPER }
    }

    static class Keeper extends Person {
        String hut
        void sleep() {}
    }

    int depth() { level * 2 }
}

trait Floating {
    abstract void float()
    String sound() { 'splash' }
}

enum Side {
    LEFT, RIGHT
}

/** Whether two boats fit. */
def fit(first, second) {
    first.length + second.length < 30
}

def tolls = [
    boat: 1,
    barge: 4,
]

class LocksSpec extends Specification {
    def "a boat is lifted"() {
        given:
        def locks = new Locks('north')
        expect:
        locks.lift([]) == null
    }

    void 'gates close'() {
        expect: true
    }
}
