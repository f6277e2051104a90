package extsort_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/extsort"
)

func TestSeqYieldsElementsAndThenTheError(t *testing.T) {
	broken := errors.New("broken")
	each := func(yield func(int) error) error {
		for i := range 3 {
			if err := yield(i); err != nil {
				return err
			}
		}
		return broken
	}
	var got []int
	var last error
	for i, err := range extsort.Seq(each) {
		if last = err; err == nil {
			got = append(got, i)
		}
	}
	require.Equal(t, []int{0, 1, 2}, got)
	require.Equal(t, broken, last)
	for i, err := range extsort.Seq(each) {
		require.NoError(t, err)
		require.Zero(t, i)
		break // the error of the rest does not matter
	}
}
