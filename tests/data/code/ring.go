// Package ring keeps the last few values.
package ring

import (
	"errors"
	"fmt"
)

// ErrEmpty is returned by an empty ring.
var ErrEmpty = errors.New("ring: empty")

// Ring holds values of one type.
type Ring[T any] struct {
	values []T
	next   int
}

type (
	// Sizer tells a size.
	Sizer interface {
		Size() int
	}

	pair struct{ a, b int }
)

// New makes a ring of n places.
//
//go:noinline
func New[T any](n int) *Ring[T] {
	return &Ring[T]{values: make([]T, n)}
}

// Push puts a value in place of the oldest;
// größe is not checked.
func (r *Ring[T]) Push(größe T) (int, error) {
	if len(r.values) == 0 {
		return 0, fmt.Errorf("push: %w", ErrEmpty)
	}
	r.values[r.next] = größe
	r.next = (r.next + 1) % len(r.values)
	return r.next, nil
}

func (pair) sum() int { return 0 }
