using System;
using System.Collections.Generic;

namespace Fixture.Storage
{
    /// <summary>
    /// Keeps crates until <see cref="Collect"/> is called.
    /// </summary>
    [Serializable]
    public class Depot<T> : IDepot where T : Crate
    {
        private readonly List<T> crates = new List<T>();

        public int Size => crates.Count;

        public Depot(int places)
        {
            Places = places;
        }

        /// <summary>Takes a crate in.</summary>
        /// <param name="crate">The crate.</param>
        public bool Take(T crate) => crates.Add(crate);

        public static Depot<T> operator +(Depot<T> left, T right)
        {
            return left;
        }

        private struct Slot
        {
            public int Row;
        }
    }

    public interface IDepot
    {
        bool Collect(int number);
    }

    public enum Door { Open, Shut }

    public record Label(string Text);

    public delegate void Moved(Crate crate);
}
