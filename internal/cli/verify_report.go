package cli

import (
	"strings"

	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/quote"
	"github.com/seed65876f4f/sealift/internal/verify"
)

// checker tells what a check reports.
type checker struct {
	teller
	aloud    bool        // lines go to standard error, because standard output is for JSON
	severals bool        // directories, so that names begin with theirs
	stop     func(error) // ends the run

	unlisted []unlistedJSON        // guarded by teller.mu
	origins  map[int]verify.Result // by the index of a failure in teller.failures; likewise
}

// result is verify.Options.Report.
func (c *checker) result(v verify.Result) {
	name := c.name(v)
	switch v.Verdict {
	case verify.Match:
		c.line(name, "OK")
	case verify.Mismatch:
		c.line(name, "FAILED")
		c.count(&c.mismatches, v, "mismatch")
	case verify.Missing:
		c.line(name, "MISSING")
		c.count(&c.mismatches, v, "missing")
	case verify.Unreadable:
		c.trouble(name, "verify: ", v)
		if !c.aloud { // the cause has said it
			c.line(name, "FAILED open or read")
		}
	case verify.Incomplete:
		c.say(quoted(name) + ": " + quotedError(v.Err))
		c.count(&c.mismatches, v, errorText(v.Err))
		if !c.aloud {
			c.line(name, "INCOMPLETE")
		}
	case verify.Unlisted:
		c.line(name, "UNLISTED")
		if c.keep {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.unlisted = append(c.unlisted, unlistedJSON{newNameJSON(v.Path), v.Dir})
		}
	case verify.Warning:
		c.warning(quoted(name), v.Path, v.Dir, v.Err)
	case verify.Failure:
		c.trouble(name, "", v)
	}
}

// name is how a person finds what v is about; "" if it is about nothing.
func (c *checker) name(v verify.Result) string {
	switch {
	case v.Path == "" && v.Dir == "":
		return ""
	case v.Path == "":
		return v.Dir
	case !c.severals:
		return v.Path
	}
	return strings.TrimRight(v.Dir, "/") + "/" + v.Path // as written: the path may be hostile
}

// quoted is a name in a message, "" if there is none.
func quoted(name string) string {
	if name == "" {
		return ""
	}
	return quote.Name(name)
}

// line tells a verdict where the results go, if anywhere.
func (c *checker) line(name, verdict string) {
	switch {
	case c.results != nil:
		if err := c.results.Line(quote.Plain(name) + ": " + verdict); err != nil {
			c.stop(err)
		}
	case c.aloud && verdict == "OK":
		c.screen.Line(quote.Name(name) + ": " + verdict)
	case c.aloud:
		c.say(quote.Name(name) + ": " + verdict)
	}
}

// trouble tells why something could not be checked.
func (c *checker) trouble(name, stage string, v verify.Result) {
	if name = quoted(name); name != "" {
		name += ": "
	}
	c.say(name + stage + quotedError(v.Err))
	c.count(&c.errors, v, errorText(v.Err))
}

// count is record with what only verify has to say.
func (c *checker) count(n *int64, v verify.Result, text string) {
	c.record(n, v.Path, v.Dir, failure.StageVerify, text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keep {
		if c.origins == nil {
			c.origins = map[int]verify.Result{}
		}
		c.origins[len(c.failures)-1] = v
	}
}

// finish tells how the run as a whole ended, and what that means.
func (c *checker) finish(s *verify.Summary, err error) outcome {
	result := c.cutShort(err, "")
	failures, mismatches := c.told()
	result.failed = result.failed || failures > 0 || s.Errors > 0
	result.mismatched = mismatches > 0 || s.Mismatches > 0 || s.Missing > 0
	return result
}
