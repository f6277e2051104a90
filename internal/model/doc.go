// Package model judges copies. Its tests predict, from the contract of `copy` alone, the one
// state that a copy may leave at each destination, its exit code and its counts. They then
// compare the prediction with a run of the program, for random histories of edits and copies.
//
// The prediction (predict_test.go, lines_test.go, filter_test.go) does not import the packages
// that decide in the program. A rule that both sides took from the same code would judge nothing.
package model
