/* Mooring of ships. */
using GLib;

namespace Harbor {
    /** What can go wrong at the quay. */
    public errordomain QuayError {
        FULL,
        CLOSED
    }

    // A berth for one ship.
    public abstract class Berth : Object, Lit {
        public string name { get; construct; }
        private Gee.List<Ship?> waiting = new Gee.ArrayList<Ship?> ();

        public signal void moored (Ship ship);

        construct {
            waiting.clear ();
        }

        public Berth (string name) {
            Object (name: name);
        }

        public Berth.for_ship (Ship ship)
        {
            this (ship.name);
        }

        /**
         * Moors a ship once the berth is free.
         */
        public virtual async bool moor (Ship ship, int hours = 2) throws QuayError {
            if (hours < 0) {
                throw new QuayError.CLOSED ("for { hours");
            } else if (is_full (ship)) {
                return wait_for (ship);
            }
            foreach (var line in ship.lines ()) {
                line.tie ();
            }
            return true;
        }

        protected abstract bool is_full (Ship ship);

        private HashTable<string, Ship>? by_name () {
            return null;
        }
    }

    public interface Lit : Object {
        public abstract void light ();
    }
}

static int main (string[] args) {
    return 0;
}
