// Package rigs holds the tests that work on the program as users get it: the scripts of
// scripts/, the release, the installation by go. It has no code of its own.
package rigs
