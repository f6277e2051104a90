package readback

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Two workers read 3 s and 4 s, of which 2 s overlap. After a pause, one reads 1 s.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.begin()
		time.Sleep(time.Second)
		c.begin()
		time.Sleep(2 * time.Second)
		c.end()
		time.Sleep(2 * time.Second)
		c.end()
		time.Sleep(time.Hour)
		c.begin()
		time.Sleep(time.Second)
		c.end()
		require.Equal(t, 6*time.Second, c.elapsed())
	})
}
