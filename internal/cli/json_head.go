package cli

import (
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	outcomes "github.com/seed65876f4f/sealift/internal/outcome"
)

// headJSON has the first fields of the JSON output of every command: command, version, host,
// times and options.
type headJSON struct {
	// The version of this object. It increases only when a field changes its meaning or is removed.
	Schema  int    `json:"schema"`
	Command string `json:"command"` // The command.
	Version string `json:"version"` // The version of Sealift, as in version.json.
	Host    string `json:"host"`    // The name of the machine; empty if it has none.
	Start   string `json:"start"`   // When the command began, in UTC (RFC 3339).
	End     string `json:"end"`     // When the command ended, in UTC (RFC 3339).
	// The options on the command line, in their order. All others have the defaults of this version. The
	// filter rules are together.
	Options []optionJSON `json:"options"`
}

// amountJSON has the amount of data that a command has processed.
type amountJSON struct {
	Bytes int64 `json:"bytes"` // Bytes that were read or written.
	// The elapsed time, in seconds. That of merge is from the start of the first task to the end of the
	// last one, by the clocks of their machines, plus the time of the merge.
	Seconds float64 `json:"seconds"`
	// The average speed, in bytes per second, without decimals; 0 if it is unknown. That of a copy is
	// without the time of reading back. That of merge is for the time in which at least one task was
	// copying. That of compare is the speed of A.
	Rate float64 `json:"rate"`
}

func newAmountJSON(bytes int64, elapsed time.Duration) amountJSON {
	return amountJSON{bytes, elapsed.Seconds(), math.Round(rate(bytes, elapsed))}
}

// amount returns the values of a row with the size, the time and the rate.
func (a amountJSON) amount() []outcomes.Value {
	elapsed := time.Duration(a.Seconds * float64(time.Second))
	return []outcomes.Value{outcomes.Size(a.Bytes, "bytes").With(" in " + duration(elapsed)), outcomes.Rate(&a.Rate, "rate")}
}

// optionJSON is a flag on the command line. A repeated flag has one optionJSON for each time.
type optionJSON struct {
	Name string `json:"name"` // The long name of the option, without dashes.
	// Its value as text; true for an option without a value. Bytes that are not UTF-8 are replaced by
	// U+FFFD.
	Value string `json:"value"`
}

// timeJSON is the layout of times. Milliseconds are enough to compare logs.
const timeJSON = "2006-01-02T15:04:05.000Z07:00"

// head returns the first fields for a command that ends now.
func (r *reporter) head() headJSON {
	host, _ := os.Hostname() // "" if the system has no name
	return headJSON{
		Schema:  jsonSchema,
		Command: r.cmd.Name(),
		Version: readBuild().Version,
		Host:    host,
		Start:   r.start.UTC().Format(timeJSON),
		End:     time.Now().UTC().Format(timeJSON),
		Options: givenOptions(r.cmd),
	}
}

// givenOptions returns the flags on the command line, in their order. The filter rules are
// together at the place of the first one, in their own order, which matters.
func givenOptions(cmd *cobra.Command) []optionJSON {
	list := []optionJSON{}
	var shown []*[]optionJSON
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case *eachValue:
			if !slices.Contains(shown, v.given) {
				list, shown = append(list, *v.given...), append(shown, v.given)
			}
		case pflag.SliceValue:
			for _, value := range v.GetSlice() {
				list = append(list, optionJSON{f.Name, value})
			}
		default:
			list = append(list, optionJSON{f.Name, f.Value.String()})
		}
	})
	return list
}

// eachValue is a flag that calls set each time it is given. given has these flags and their texts. Flags whose order
// among each other matters share it.
type eachValue struct {
	name, kind string
	set        func(string) error
	given      *[]optionJSON
}

func (v *eachValue) Set(text string) error {
	if err := v.set(text); err != nil {
		return err
	}
	*v.given = append(*v.given, optionJSON{v.name, text})
	return nil
}

func (v *eachValue) String() string { return "" }
func (v *eachValue) Type() string   { return v.kind }

// eachFlag defines a flag with a value that may be repeated. set is called for each value.
func eachFlag(s *pflag.FlagSet, name, text string, set func(string) error) {
	s.Var(&eachValue{name, "value", set, &[]optionJSON{}}, name, text)
}

// eachSwitch defines a flag without a value whose order among other flags matters.
func eachSwitch(s *pflag.FlagSet, name, short, text string, set func(string) error) {
	s.VarPF(&eachValue{name, "bool", set, &[]optionJSON{}}, name, short, text).NoOptDefVal = "true"
}
