package bag

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The labels of bag-info.txt that Sealift writes.
const (
	LabelOxum  = "Payload-Oxum"
	LabelSize  = "Bag-Size"
	LabelDate  = "Bagging-Date"
	LabelAgent = "Bag-Software-Agent"
)

// Oxum is the size of a payload: "octetstream sum".
type Oxum struct{ Bytes, Files int64 }

func (o Oxum) String() string { return fmt.Sprintf("%d.%d", o.Bytes, o.Files) }

// parseOxum reads the value of Payload-Oxum.
func parseOxum(s string) (o Oxum, err error) {
	left, right, _ := strings.Cut(s, ".")
	if o.Bytes, err = parseCount(left); err == nil {
		o.Files, err = parseCount(right)
	}
	if err != nil {
		return Oxum{}, fmt.Errorf("%s %.60q is not two numbers with a point between them", LabelOxum, s)
	}
	return o, nil
}

func parseCount(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, 64)
}

// Info has the elements of bag-info.txt that a check needs.
type Info struct {
	Oxum  *Oxum  // content of Payload-Oxum; nil if there is none
	Agent string // the first 1,000 bytes of Bag-Software-Agent
}

// ReadInfo reads bag-info.txt.
func ReadInfo(r io.Reader) (i Info, err error) {
	limited := &io.LimitedReader{R: r, N: maxInfo + 1}
	var label string
	var value strings.Builder // value of the current label, if it is of interest
	end := func() error {
		text := strings.Trim(value.String(), " \t")
		value.Reset()
		switch {
		case strings.EqualFold(label, LabelAgent):
			i.Agent = text[:min(len(text), 1000)]
		case strings.EqualFold(label, LabelOxum):
			o, err := parseOxum(text)
			if err != nil {
				return err
			}
			if i.Oxum != nil && *i.Oxum != o {
				return fmt.Errorf("%s is there twice, with different values", LabelOxum)
			}
			i.Oxum = &o
		}
		return nil
	}
	err = eachLine(limited, func(number int, line string) error {
		switch {
		case strings.Trim(line, " \t") == "":
			return nil
		case line[0] == ' ' || line[0] == '\t':
			if label == "" {
				return fmt.Errorf("line %d continues nothing", number)
			}
			if value.Len()+len(line) <= maxLine {
				value.WriteString(line)
			}
			return nil
		}
		if err := end(); err != nil {
			return err
		}
		name, rest, ok := strings.Cut(line, ":")
		if label = strings.TrimRight(name, " \t"); !ok || label == "" {
			return fmt.Errorf("line %d is not a label, a colon and a value", number)
		}
		value.WriteString(rest)
		return nil
	})
	if err == nil {
		err = end()
	}
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("it is longer than %d MiB", maxInfo>>20)
	}
	return i, err
}

// Agent begins the value of Bag-Software-Agent in the bags that Sealift writes.
const Agent = "Sealift"

// Field is one element of bag-info.txt.
type Field struct{ Label, Value string }

// maxField is the length of the longest element that Sealift writes, in bytes.
const maxField = 32 << 10

// ParseField reads "LABEL=VALUE".
func ParseField(s string) (f Field, err error) {
	label, value, ok := strings.Cut(s, "=")
	f = Field{strings.TrimSpace(label), strings.TrimSpace(value)}
	switch {
	case !ok || f.Label == "":
		return f, errors.New("want LABEL=VALUE")
	case len(s) > maxField:
		return f, fmt.Errorf("it is longer than %d bytes", maxField)
	case !utf8.ValidString(s):
		return f, errors.New("it is not UTF-8")
	case strings.ContainsAny(s, "\r\n\x00"):
		return f, errors.New("a line break or a NUL is not possible")
	case strings.Contains(f.Label, ":"):
		return f, errors.New("a colon in the label is not possible")
	}
	for _, own := range []string{LabelOxum, LabelSize, LabelDate, LabelAgent} {
		if strings.EqualFold(f.Label, own) {
			return f, fmt.Errorf("%s is written by Sealift itself", own)
		}
	}
	return f, nil
}

// AppendInfo appends the elements as lines of bag-info.txt.
func AppendInfo(dst []byte, fields []Field) []byte {
	for _, f := range fields {
		dst = append(dst, f.Label+": "+f.Value+"\n"...)
	}
	return dst
}

// Size formats a size as the value of Bag-Size, in powers of 1000 as usual there.
func Size(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1000, 0
	for ; value >= 999.95 && unit < len("kMGTPE")-1; unit++ {
		value /= 1000
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTPE"[unit])
}
