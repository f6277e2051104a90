package outcome

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
)

const again = "run it again"

func TestTheNextStepFollowsFromTheCause(t *testing.T) {
	other := errors.New("other")
	for want, events := range map[string][]event.Event{
		again: {
			{Kind: event.Conflict, Path: "f", Target: "a", Err: other},
			event.OfFile(event.Failed, "f", "a", failure.StageWrite, syscall.EACCES),
			event.OfFile(event.Failed, "f", "", failure.StageRead, other),
		},
		"make space at 'a', then " + again: {{Kind: event.DestinationLost, Target: "a", Err: syscall.ENOSPC}},
		"free 2.02 GB at 'a', make space at 'b', then " + again: {
			{Kind: event.DestinationLost, Target: "a", Err: &failure.FullError{Err: syscall.ENOSPC, Needed: 5e9, Free: 3e9}},
			{Kind: event.DestinationLost, Target: "b", Err: &failure.FullError{Err: syscall.ENOSPC, Needed: 3e9, Free: 5e9}},
		},
		"reconnect 'a', check that it is mounted, then " + again:                               {{Kind: event.DestinationLost, Target: "a", Err: syscall.EIO}},
		"make the files of the source readable, then " + again:                                 {event.OfFile(event.Failed, "f", "", failure.StageOpen, syscall.EACCES)},
		"check the disk and the cable of the source, then " + again:                            {event.OfFile(event.Failed, "f", "", failure.StageRead, syscall.EIO)},
		"check the disk and the cable of 'a', 'b', then " + again:                              {mismatch("a"), mismatch("a"), mismatch("b")},
		"complete the source, then " + again:                                                   {event.OfFile(event.Mismatch, "SEALIFT-INCOMPLETE-x.txt", "", failure.StageCheck, other)},
		"restore the files that do not match (or add --source-manifest=ignore), then " + again: {mismatch("")},
		"make space at 'c', reconnect 'a', 'b', check that they are mounted, then " + again: {
			{Kind: event.DestinationLost, Target: "a", Err: other},
			{Kind: event.DestinationLost, Target: "b", Err: other},
			{Kind: event.DestinationLost, Target: "c", Err: syscall.ENOSPC},
		},
	} {
		var c Causes
		for _, e := range events {
			c.AddEvent(e)
		}
		require.Equal(t, want, c.Next(again))
	}
}

func mismatch(target string) event.Event {
	return event.OfFile(event.Mismatch, "f", target, failure.StageVerify, errors.New("differs"))
}
