package faultfs

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// ErrCut is the error of every operation after the process has died.
var ErrCut = errors.New("the power is cut")

// An Injector is asked before an operation and makes it fail with its error; nil lets it
// happen. It is a value for fsys.FS.Fault.
type Injector = func(fsys.Call) error

// New makes an FS that asks f about the kind and the name of each operation.
func New(f func(op fsys.Op, name string) error) *fsys.FS {
	return &fsys.FS{Fault: func(c fsys.Call) error { return f(c.Op, c.Name) }}
}

// Fail makes an operation fail with err.
func Fail(err error) Injector { return func(fsys.Call) error { return err } }

// OnIndex asks then about the n-th operation that comes to it, counted from 0.
func OnIndex(n int64, then Injector) Injector {
	var count atomic.Int64
	return When(func(fsys.Call) bool { return count.Add(1)-1 == n }, then)
}

// From asks then about the n-th operation that comes to it, counted from 0, and about
// all after it.
func From(n int64, then Injector) Injector {
	var count atomic.Int64
	return When(func(fsys.Call) bool { return count.Add(1) > n }, then)
}

// OnOp asks then about operations of one of the kinds.
func OnOp(then Injector, kinds ...fsys.Op) Injector {
	return When(func(c fsys.Call) bool { return slices.Contains(kinds, c.Op) }, then)
}

// OnName asks then about operations on entries called name.
func OnName(name string, then Injector) Injector {
	return When(func(c fsys.Call) bool { return c.Name == name }, then)
}

// When asks then about operations for which match holds.
func When(match func(fsys.Call) bool, then Injector) Injector {
	return func(c fsys.Call) error {
		if !match(c) {
			return nil
		}
		return then(c)
	}
}

// All asks all injectors, in order, and returns the first error.
func All(injectors ...Injector) Injector {
	return func(c fsys.Call) error {
		for _, i := range injectors {
			if err := i(c); err != nil {
				return err
			}
		}
		return nil
	}
}
