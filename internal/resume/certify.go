package resume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed65876f4f/sealift/internal/fsys"
)

// certifiedName is the file in the journal that Certify writes.
const certifiedName = "settled"

// maxCertificate is the size of the longest certificate, in bytes: some thousand logs.
const maxCertificate = 1 << 20

// Certify is for a run that completes while logs of other copies stay. It records these
// logs and the manifests that the run has written. digests has the SHA-256 of each
// manifest, in the order of the hashes. The run has judged the files that those manifests
// list. So while neither logs nor manifests change, no unfinished copy can have left one of
// these files incomplete.
func (l *Log) Certify(digests []string) error {
	if len(l.journal.foreign) == 0 || len(digests) != len(l.opts.Hashes) || len(digests) == 0 {
		return nil
	}
	text, err := l.certificate(digests)
	if err != nil {
		return err
	}
	p, err := l.journal.Create()
	if err != nil {
		return err
	}
	defer p.Abort()
	if err := p.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	if l.opts.Durable {
		if err := p.Sync(); err != nil {
			return err
		}
	}
	return p.CommitReplacing(certifiedName)
}

// readCertified compares the certificate with the current logs and manifests. If this
// source has a log, its copy was interrupted later.
func (l *Log) readCertified() error {
	f, info, err := l.journal.dir.OpenRegular(certifiedName)
	var other *fsys.KindError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &other) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if l.known != nil || info.Size > maxCertificate {
		return nil
	}
	text, err := io.ReadAll(f.Reader(info.Size))
	if err != nil {
		return err
	}
	digests, err := l.opts.ManifestDigests()
	if err != nil {
		return err
	}
	now, err := l.certificate(digests)
	l.Certified = err == nil && now == string(text)
	return err
}

// certificate returns a line for each log of another copy and each manifest.
func (l *Log) certificate(digests []string) (string, error) {
	names, err := l.journal.logs()
	if err != nil {
		return "", err
	}
	var lines []string
	for _, name := range names {
		if name != l.name {
			info, err := l.journal.dir.Lstat(name)
			if err != nil {
				return "", err
			}
			lines = append(lines, fmt.Sprintf("%d %s\n", info.Size, name))
		}
	}
	slices.Sort(lines)
	for _, digest := range digests {
		lines = append(lines, digest+"\n")
	}
	return strings.Join(lines, ""), nil
}
