package journal

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"
	"unsafe"

	"github.com/seed65876f4f/sealift/internal/fsys"
	"github.com/seed65876f4f/sealift/internal/lookup"
)

// FuzzRead reads anything as a log. The records can be written again, byte for
// byte, and the Log agrees with its lines. With sealed, the lines of text get
// their right checksums first, which no fuzzer finds.
func FuzzRead(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, sealed bool) {
		if sealed {
			text = seal(text)
		}
		l, err := Read(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if l.Size > int64(len(text)) || (l.Why != nil) != (l.Size < int64(len(text))) {
			t.Fatalf("%d of %d bytes are good, %v", l.Size, len(text), l.Why)
		}
		// The shortest lines are longer than what is kept of them.
		kept := len(l.entries)*int(unsafe.Sizeof(lookup.Entry(0))) + len(l.checkpoints)*int(unsafe.Sizeof(checkpoint{})) +
			(len(l.runs)-1)*int(unsafe.Sizeof(run{})) + l.held
		if int64(kept) > l.Size || len(l.partials) > maxPartials || l.held > maxPartialBytes {
			t.Fatalf("%d bytes are kept of %d, %d partials of %d bytes", kept, l.Size, len(l.partials), l.held)
		}
		rewrite(t, l, text[:l.Size])
	})
}

// rewrite writes the records of a good log again and compares l with them.
func rewrite(t *testing.T, l *Log, text []byte) {
	var again bytes.Buffer
	w, err := Create(&again, l.Header)
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(text, '\n') + 1
	if !bytes.Equal(again.Bytes(), text[:first]) {
		t.Fatalf("%q was written again as %q", text[:first], again.Bytes())
	}
	type covered struct {
		File
		at fsys.Time
	}
	var pending []op
	files, count := map[string]covered{}, int64(0)
	partials, paths := map[string]Partial{}, map[string]bool{}
	for line := range bytes.Lines(text[first:]) {
		start := w.Size()
		f, err := parse(line[sumDigits+1 : len(line)-1])
		if err != nil {
			t.Fatalf("%q was taken: %v", line, err)
		}
		path, _ := unescape(f.path)
		switch f.letter {
		case fileLetter:
			digests, err := decodeDigests(f.list)
			if err != nil {
				t.Fatal(err)
			}
			file := File{Path: path, Size: f.size, Mtime: f.mtime, Ctime: f.ctime, Digests: digests}
			if err := w.File(&file); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			pending = append(pending, op{start: start, what: file})
			paths[path] = true
		case partialLetter:
			states, err := decodeStates(f.list)
			if err != nil {
				t.Fatal(err)
			}
			p := Partial{Path: path, Temp: string(f.temp), Offset: f.offset, Size: f.size, Mtime: f.mtime, Ctime: f.ctime, States: states}
			if err := w.Partial(&p); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			partials[path] = p
		case doneLetter:
			if err := w.Done(path); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			delete(partials, path)
		case checkpointLetter:
			// Continue cannot know of the checkpoints above and takes none
			// of what came before.
			w.upto = min(w.upto, f.offset)
			if err := w.Checkpoint(f.offset, f.time); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for ; len(pending) > 0 && pending[0].start < f.offset; pending = pending[1:] {
				file := pending[0].what.(File)
				files[file.Path] = covered{file, f.time}
				count++
			}
		case runLetter:
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			w = Continue(&again, l.Header, w.Size())
			// Its id was a fresh one.
			if len(w.buf) != len(line) {
				t.Fatalf("%q instead of %q", w.buf, line)
			}
			copy(w.buf, line)
			w.sum = checksum(string(f.id))
			pending = nil
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Bytes(), text) {
		t.Fatalf("%q was written again as %q", text, again.Bytes())
	}

	if l.Files() != count {
		t.Fatalf("%d files are covered, want %d", l.Files(), count)
	}
	for path := range paths {
		want, listed := files[path]
		file, at, ok, err := l.File(path)
		if err != nil || ok != listed || at != want.at || file.Path != want.Path || file.Size != want.Size ||
			file.Mtime != want.Mtime || file.Ctime != want.Ctime || !file.Digests.Equal(want.Digests) {
			t.Fatalf("%q: %v, %v, %v, %v, want %v", path, file, at, ok, err, want)
		}
	}
	for p := range l.Partials() {
		want, ok := partials[p.Path]
		if !ok || p.Temp != want.Temp || p.Offset != want.Offset || p.Size != want.Size ||
			p.Mtime != want.Mtime || p.Ctime != want.Ctime || len(p.States) != len(want.States) {
			t.Fatalf("%v, want %v", p, want)
		}
		delete(partials, p.Path)
	}
	if len(partials) > 0 {
		t.Fatalf("not in force: %v", partials)
	}
}

// seal gives lines their checksums, the first as a header. A last one without LF
// stays without.
func seal(text []byte) (log []byte) {
	var first, current uint32
	for line := range bytes.Lines(text) {
		rest := bytes.TrimSuffix(line, []byte{'\n'})
		before := current
		if len(log) == 0 {
			if h, err := parseHeader(rest); err == nil {
				first = checksum(h.ID)
				current = first
			}
		} else if f, err := parse(rest); err == nil && f.letter == runLetter {
			before, current = first, checksum(string(f.id))
		}
		log = append(append(appendSum(log, crc32.Update(before, castagnoli, rest)), ' '), line...)
	}
	return log
}
