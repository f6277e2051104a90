package mhl

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/safexml"
)

// Action says how a hash was made.
type Action string

// The actions.
const (
	Original Action = "original" // the first hash of a file in its history
	Verified Action = "verified" // a hash of a file that an earlier generation's hash matches
	Failed   Action = "failed"   // a hash of a file that an earlier generation's hash does not match
)

// Process is the operation that made a generation.
type Process string

// The processes.
const (
	InPlace  Process = "in-place" // The files were hashed.
	Transfer Process = "transfer" // The files were copied.
	Flatten  Process = "flatten"  // The hashes were taken from other generations.
)

// Digest is one hash of a file.
type Digest struct {
	Algorithm hash.Algorithm
	Sum       []byte
	Action    Action
}

// Listed is a file or a directory in a generation.
type Listed struct {
	Path     string // path relative to the directory that has the history, with "/" but none at the end
	IsDir    bool
	Previous string   // the path before it was renamed, "" if it was not
	Digests  []Digest // digests of a file, at least one
}

// Reference is an entry of a generation about the generation of a history further down in the
// tree.
type Reference struct {
	Path string // path of the generation, relative to the directory of the history that refers to it
	C4   []byte
}

// Generation is the content of a generation apart from its hashes.
type Generation struct {
	Process    Process
	Ignore     []string // ignore patterns
	References []Reference
}

// Limits of the parts of a generation. The number of its files has no limit.
const (
	maxPatterns   = 4096
	maxReferences = 1 << 17
	maxKept       = 8 << 20  // bytes of patterns and references, which are in memory
	maxPath       = 64 << 10 // bytes; a line of a manifest can hold it
	maxDigests    = 16       // largest number of digests of one file
)

const namespace = "urn:ASC:MHL:v2.0"

// ReadGeneration reads a generation in one pass and calls yield for each file and directory,
// in the order of the document. The error is a *safexml.Error if the document is not a
// generation, otherwise that of r or of yield.
func ReadGeneration(r io.Reader, yield func(Listed) error) (*Generation, error) {
	p := &parser{in: safexml.NewReader(r), yield: yield, generation: &Generation{}}
	if err := document(p.in, "hashlist", namespace, p.part, checkVersion); err != nil {
		return nil, err
	}
	return p.generation, nil
}

// document reads a document that consists of one element of the given name.
func document(in *safexml.Reader, name, space string, each func(xml.StartElement) error, check func(*safexml.Reader, xml.StartElement) error) error {
	token, err := in.Token()
	if err != nil {
		return err
	}
	start, ok := token.(xml.StartElement)
	if !ok || start.Name.Local != name || start.Name.Space != space {
		return in.Fail("it is not an ASC MHL 2.0 document: the outermost element is not <" + name + `> of the namespace "` + space + `"`)
	}
	if check != nil {
		if err := check(in, start); err != nil {
			return err
		}
	}
	if err := children(in, each); err != nil {
		return err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// children calls each for the elements within the element whose start was read last. each must
// read to the end of its element.
func children(in *safexml.Reader, each func(xml.StartElement) error) error {
	for {
		token, err := in.Token()
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.EndElement:
			return nil
		case xml.StartElement:
			if err := each(t); err != nil {
				return err
			}
		}
	}
}

func attribute(start xml.StartElement, name string) string {
	for _, a := range start.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

func checkVersion(in *safexml.Reader, start xml.StartElement) error {
	if version := attribute(start, "version"); version != "2.0" {
		return in.Fail("it is of version " + strconv.Quote(version) + `, and only "2.0" is read`)
	}
	return nil
}

// parser reads one generation.
type parser struct {
	in         *safexml.Reader
	yield      func(Listed) error
	generation *Generation
	kept       int // bytes of patterns and references
}

// keep refuses a generation that needs too much memory.
func (p *parser) keep(text string) error {
	if p.kept += len(text); p.kept > maxKept {
		return p.in.Fail(fmt.Sprintf("its ignore patterns and references have more than %d bytes", maxKept))
	}
	return nil
}

// part reads a child of <hashlist>.
func (p *parser) part(start xml.StartElement) error {
	switch start.Name.Local {
	case "processinfo":
		return children(p.in, p.processInfo)
	case "hashes":
		return children(p.in, p.hash)
	case "references":
		return children(p.in, p.reference)
	}
	return p.in.Skip()
}

func (p *parser) processInfo(start xml.StartElement) error {
	switch start.Name.Local {
	case "process":
		text, err := p.in.Text()
		p.generation.Process = Process(strings.TrimSpace(text))
		return err
	case "ignore":
		return children(p.in, p.pattern)
	}
	return p.in.Skip()
}

func (p *parser) pattern(start xml.StartElement) error {
	if start.Name.Local != "pattern" {
		return p.in.Skip()
	}
	text, err := p.in.Text()
	if err != nil {
		return err
	}
	if len(p.generation.Ignore) == maxPatterns {
		return p.in.Fail(fmt.Sprintf("it has more than %d ignore patterns", maxPatterns))
	}
	p.generation.Ignore = append(p.generation.Ignore, text)
	return p.keep(text)
}

func (p *parser) reference(start xml.StartElement) error {
	if start.Name.Local != "hashlistreference" {
		return p.in.Skip()
	}
	var ref Reference
	err := children(p.in, func(start xml.StartElement) (err error) {
		switch start.Name.Local {
		case "path":
			ref.Path, err = p.path()
		case "c4":
			ref.C4, err = digestIn(p.in, hash.C4)
		default:
			err = p.in.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case ref.Path == "" || ref.C4 == nil:
		return p.in.Fail("a reference has no path or no C4 ID")
	case len(p.generation.References) == maxReferences:
		return p.in.Fail(fmt.Sprintf("it has more than %d references", maxReferences))
	}
	p.generation.References = append(p.generation.References, ref)
	return p.keep(ref.Path)
}

// hash reads a child of <hashes>.
func (p *parser) hash(start xml.StartElement) error {
	l := Listed{IsDir: start.Name.Local == "directoryhash"}
	if !l.IsDir && start.Name.Local != "hash" {
		return p.in.Skip()
	}
	err := children(p.in, func(start xml.StartElement) (err error) {
		name := start.Name.Local
		switch a := hash.Algorithm(name); {
		case name == "path" && l.Path != "":
			err = p.in.Fail("an entry has two paths")
		case name == "path":
			l.Path, err = p.path()
		case name == "previousPath":
			l.Previous, err = p.path()
		case !l.IsDir && slices.Contains(algorithms, a):
			d := Digest{Algorithm: a, Action: Action(attribute(start, "action"))}
			if !slices.Contains([]Action{"", Original, Verified, Failed}, d.Action) {
				return p.in.Fail(fmt.Sprintf("the action of a hash is %.40q; original, verified and failed are known", d.Action))
			}
			if d.Sum, err = digestIn(p.in, a); err != nil {
				return err
			}
			if len(l.Digests) == maxDigests {
				return p.in.Fail(fmt.Sprintf("an entry has more than %d hashes", maxDigests))
			}
			l.Digests = append(l.Digests, d)
		default:
			err = p.in.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case l.Path == "":
		return p.in.Fail("an entry has no path")
	case !l.IsDir && l.Digests == nil:
		return p.in.Fail(fmt.Sprintf("%.200q has no hash of a known kind", l.Path))
	}
	return p.yield(l)
}

// path reads the text of an element that is a path.
func (p *parser) path() (string, error) {
	text, err := p.in.Text()
	if err != nil {
		return "", err
	}
	if len(text) > maxPath {
		return "", p.in.Fail(fmt.Sprintf("a path has more than %d bytes", maxPath))
	}
	path := strings.TrimSuffix(text, "/") // other programs write a slash after a directory
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return "", p.in.Fail(fmt.Sprintf("%.200q is not a path below the directory", text))
		}
	}
	return path, nil
}

// digestIn reads the text of an element that is a digest.
func digestIn(in *safexml.Reader, a hash.Algorithm) ([]byte, error) {
	text, err := in.Text()
	if err != nil {
		return nil, err
	}
	sum, ok := a.AppendDigest(nil, []byte(strings.TrimSpace(text)))
	if !ok || len(sum) != a.Size() {
		return nil, in.Fail(fmt.Sprintf("%.100q is not a hash of the kind %s", text, a))
	}
	return sum, nil
}
