/**
 * Cranes of a harbour.
 */
module harbor.crane;

import std.stdio : writeln;
import std.traits;

/++ A load + its weight. +/
struct Load
{
    double weight;

    this(double weight) @safe
    {
        this.weight = weight;
    }

    /// Whether it is heavy.
    bool heavy() const @property => weight > 10;

    ref Load opOpAssign(string op)(in Load other) if (op == "+")
    {
        weight += other.weight;
        return this;
    }
}

interface Crane
{
    void lift(Load load);
}

enum Side : ubyte { port, starboard }

enum maxLoad = 40;

/// Lifts all loads of a range.
auto liftAll(Range)(Range loads, double limit = 1)
if (isInputRange!Range && is(typeof((Load l) { l.weight = 1; })))
in (limit > 0)
in
{
    assert(!loads.empty, "}");
}
do
{
    foreach (load; loads)
        writeln(load);
    return loads;
}

///
@safe unittest
{
    auto loads = liftAll([Load(1)]);
    assert(loads.length == 1);
}

version (Posix)
{
    extern (C) int crane_open(const(char)* path) nothrow;

    @property immutable(char[]) mark() { return "X"; }

    const(char)[] name(immutable(char)[] path) { return path; }
}

else version (Windows) private void hoist(const scope(int) [] weights)
{
}

private template Weighed(T)
{
    enum Weighed = is(T : Load);
}
