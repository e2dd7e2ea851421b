package org.example.ledger;

import java.util.List;

/**
 * A ledger of entries.
 *
 * @since 1.0
 */
@Deprecated
public final class Ledger<T extends Number> implements Iterable<T> {
    private final List<T> entries;
    static final String TITLE = "Bücher";

    public Ledger(List<T> entries) {
        this.entries = entries;
    }

    /** The sum of all entries. */
    @Override
    @SuppressWarnings("unchecked")
    public double sum(int digits)
            throws ArithmeticException {
        Runnable later = new Runnable() {
            public void run() {}
        };
        return entries.stream().mapToDouble(T::doubleValue).sum();
    }

    public double sum() {
        return sum(2);
    }

    // Says where it is kept.
    enum Place {
        PAPER, DISK;

        boolean durable() { return this == DISK; }
    }

    record Entry(String name, long cents) {
        Entry {
            name = name.strip();
        }
    }

    interface Visitor {
        void visit(Entry entry);
    }
}
