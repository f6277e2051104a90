//go:build linux

package pipe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/counters"
)

// The counters are those of the device with most unwritten data. Data that is written
// twice to one device counts once. When the context ends, no goroutine waits for a device.
func TestGaugeCountsTheDeviceWithMostUnwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window, speed = 64 << 20, 4 << 20
		twice, once := NewDevice(DeviceOptions{Window: window, Ranges: true}), NewDevice(DeviceOptions{Window: window, Ranges: true})
		var c counters.Set
		ctx, cancel := context.WithCancel(t.Context())
		g := NewGauge(ctx, []Gauged{{Device: twice, Copies: 2}, {Device: once, Copies: 1}}, &c)

		write := func(d *Device, n int64) *Behind {
			f := (&disk{speed: speed}).create()
			b := d.behind(f, func(error) {})
			b.Wrote(f.write(n), n)
			return b
		}
		first := write(once, 3<<20)
		time.Sleep(gaugeEvery + time.Millisecond)
		require.Equal(t, once.Unwritten(), c.Unwritten.Load())
		second := write(twice, 60<<20)
		time.Sleep(gaugeEvery)
		require.Equal(t, twice.Unwritten()/2, c.Unwritten.Load())
		time.Sleep(10 * time.Second)
		require.Equal(t, twice.Rate()/2, c.DeviceRate.Load())
		require.Positive(t, c.DeviceRate.Load())

		begun := time.Now()
		time.AfterFunc(time.Second, cancel)
		third := write(twice, 2*window) // more than may wait: it takes a minute
		require.Less(t, time.Since(begun), 2*time.Second)
		for _, b := range []*Behind{first, second, third} {
			b.Finish()
		}
		g.Stop()
		require.Zero(t, c.Unwritten.Load())
		twice.Close()
		once.Close()
	})
}
