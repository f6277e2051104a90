package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/incomplete"
	"github.com/seed65876f4f/sealift/internal/manifest"
	"github.com/seed65876f4f/sealift/internal/mhl"
	"github.com/seed65876f4f/sealift/internal/outfile"
	"github.com/seed65876f4f/sealift/internal/quote"
)

// This file implements one rule: the log, the HTML report and the metrics are no files that the command
// reads, or writes for another purpose. A command checks that before it opens the log, which it
// appends to any file. The manifest and the report need no check against inputs, because they
// replace only files of their own form.

const (
	readOnly = ", where this command writes nothing"
	ofPlan   = "the plan, where only files of the plan are"
)

// usedFiles are the other files of a command.
type usedFiles struct {
	files  []usedFile
	trees  []usedFile                  // directories that must not contain a log, report or metrics
	copied func(p *outfile.Place) bool // reports whether a copied entry has the place; may be nil

	read, written []string // sources and destinations, for metrics

	shown []reportTree // the trees on the page of --report
	fs    *fsys.FS     // the system that opens the page; nil for the operating system
}

// usedFile is a file that a command reads or writes, which need not exist.
type usedFile struct {
	what   string   // name of the file in messages
	path   string   // path of the file; "" if stream is set, or if the command has no such file
	stream *os.File // standard input or output
}

// argumentFiles returns the arguments of a command as its files. "-" is stdin.
func argumentFiles(what string, args []string, stdin *os.File) (files []usedFile) {
	for _, arg := range args {
		file := usedFile{what: what, path: arg}
		if arg == "-" {
			file.path, file.stream = "", stdin
		}
		files = append(files, file)
	}
	return files
}

// is reports whether the file is at the place.
func (u usedFile) is(p *outfile.Place) bool {
	if u.stream != nil {
		info, err := u.stream.Stat()
		return err == nil && p.IsFile(info)
	}
	return u.path != "" && p.Is(u.path)
}

// refuseOutputs refuses a log, a report or metrics that are another file of the command.
func (f *outputFlags) refuseOutputs(used usedFiles) error {
	outputs := []usedFile{{what: "--log-file", path: f.logFile}, {what: "--report", path: f.report}, {what: "--metrics", path: f.metrics}}
	for i, out := range outputs {
		if err := refuseOutput(out, used, slices.Concat(outputs[:i], outputs[i+1:])); err != nil {
			return err
		}
	}
	return nil
}

func refuseOutput(out usedFile, used usedFiles, others []usedFile) error {
	if out.path == "" || out.path == "-" {
		return nil
	}
	place := outfile.At(linkTarget(out.path))
	refuse := func(why string) error { return failure.Refuse("%s %s %s", out.what, quote.Name(out.path), why) }
	for _, file := range slices.Concat(used.files, others) {
		if file.is(place) {
			return refuse("is also " + file.what + "; choose another file")
		}
	}
	if info, err := os.Stat(out.path); err == nil && !info.Mode().IsRegular() {
		return nil // a device or pipe keeps nothing
	}
	for _, tree := range used.trees {
		if place.Below(tree.path) != "" || place.Is(tree.path) {
			return refuse("is inside " + tree.what + "; choose another place")
		}
	}
	if used.copied != nil && used.copied(place) {
		return refuse("is refused: the source has an entry of this name; choose another")
	}
	if isOwnName(linkTarget(out.path)) {
		return refuse("has the name of a manifest or of another file that Sealift writes; choose another")
	}
	return nil
}

// linkTarget returns the path to which a symbolic link leads, which need not exist, or the path
// itself. Opening a file to write it follows these links.
func linkTarget(path string) string {
	const maxLinks = 40 // limit of links, as in Linux
	for range maxLinks {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			dir, _ := filepath.Split(path) // not Join, which removes "link/.." from the path
			target = dir + target
		}
		path = target
	}
	return path
}

// isOwnName reports whether Sealift itself writes files of this name: manifests, also those of a
// bag or a history, markers of incomplete copies, and everything whose name is reserved.
func isOwnName(path string) bool {
	reserved := func(name string) bool { return incomplete.IsReserved(name, true, fsys.Unknown) }
	if slices.ContainsFunc(strings.FieldsFunc(path, func(c rune) bool { return c < 0x80 && os.IsPathSeparator(byte(c)) }), reserved) {
		return true
	}
	name := filepath.Base(path)
	_, _, isManifest := manifest.Recognize(name)
	return isManifest || incomplete.IsName(name) ||
		slices.Contains([]string{bag.DeclarationName, bag.InfoName, bag.FetchName, mhl.ChainName}, name)
}
