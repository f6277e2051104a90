package mhl

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

const chainNamespace = "urn:ASC:MHL:DIRECTORY:v2.0"

// maxLinks limits the generations of a chain.
const maxLinks = 100_000

// Link is the information of a chain about one generation.
type Link struct {
	Name string // name of the file beside the chain
	C4   []byte
}

// ReadChain reads a chain. Its generations must be numbered from 1 without a gap, both in the
// chain and in their names. The error is a *safexml.Error if the document is not a chain,
// otherwise that of r.
func ReadChain(r io.Reader) ([]Link, error) {
	in := safexml.NewReader(r)
	var chain []Link
	err := document(in, "ascmhldirectory", chainNamespace, func(start xml.StartElement) error {
		if start.Name.Local != "hashlist" {
			return in.Skip()
		}
		if len(chain) == maxLinks {
			return in.Fail(fmt.Sprintf("it has more than %d generations", maxLinks))
		}
		l, err := readLink(in)
		if err != nil {
			return err
		}
		number := len(chain) + 1
		if written := strings.TrimSpace(attribute(start, "sequencenr")); written != "" && written != strconv.Itoa(number) {
			return in.Fail(fmt.Sprintf("generation %d is missing: the next one is number %.20q", number, written))
		}
		if found, ok := numberOf(l.Name); !ok || found != number {
			return in.Fail(fmt.Sprintf("%.200q is not the name of generation %d", l.Name, number))
		}
		chain = append(chain, l)
		return nil
	}, nil)
	if err == nil && len(chain) == 0 {
		err = &safexml.Error{Line: in.Line(), Why: "it lists no generation"}
	}
	return chain, err
}

func readLink(in *safexml.Reader) (l Link, err error) {
	err = children(in, func(start xml.StartElement) (err error) {
		switch start.Name.Local {
		case "path":
			l.Name, err = in.Text()
		case "c4":
			l.C4, err = digestIn(in, hash.C4)
		default:
			err = in.Skip()
		}
		return err
	})
	if err == nil && (l.C4 == nil || l.Name == "") {
		err = in.Fail("a generation has no path or no C4 ID")
	}
	return l, err
}

// numberOf returns the number that the name of a generation begins with: "0001_A002.mhl".
func numberOf(name string) (number int, ok bool) {
	stem, isGeneration := strings.CutSuffix(name, extension)
	digits, _, _ := strings.Cut(stem, "_")
	if !isGeneration || len(digits) < 4 || strings.ContainsAny(name, "/"+string(filepath.Separator)) {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err == nil
}

// WriteChain writes a chain.
func WriteChain(w io.Writer, chain []Link) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s<ascmhldirectory xmlns=%q>\n", xml.Header, chainNamespace)
	for i, l := range chain {
		fmt.Fprintf(out, "  <hashlist sequencenr=\"%d\">\n    <path>%s</path>\n    <c4>%s</c4>\n  </hashlist>\n",
			i+1, escaped(l.Name), hash.C4.Text(l.C4))
	}
	fmt.Fprint(out, "</ascmhldirectory>\n")
	return out.Flush()
}
