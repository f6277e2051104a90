package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed65876f4f/sealift/internal/bag"
	"github.com/seed65876f4f/sealift/internal/catalog"
	"github.com/seed65876f4f/sealift/internal/event"
	"github.com/seed65876f4f/sealift/internal/failure"
	"github.com/seed65876f4f/sealift/internal/hash"
)

// This file validates a source that is a bag: all manifests of the bag have to be right, and to list
// every file of the payload.

// recognizeBag detects a source that is a bag, and adds the hashes of
// its manifests to those of the run, so that the copy validates the bag. A copy with
// filters, without hashes, with --source-manifest=ignore or with --mhl does not validate a bag.
func (r *run) recognizeBag() error {
	hashes, isBag, err := r.findBag()
	if err != nil || !isBag || r.opts.MHL != nil || r.opts.part() {
		return err
	}
	r.validates = true
	r.opts.Hashes = slices.Clone(r.opts.Hashes)
	for _, a := range hashes {
		if !slices.Contains(r.opts.Hashes, a) {
			r.opts.Hashes = append(r.opts.Hashes, a)
		}
	}
	return nil
}

// findBag reports whether the source is a bag whose manifests the run uses, and which known hashes
// these have. It refuses a bag that Sealift cannot read.
func (r *run) findBag() (hashes []hash.Algorithm, isBag bool, err error) {
	if r.route.Name != "" || r.listedHashes == 0 || r.opts.SourceManifest == SourceManifestIgnore {
		return nil, false, nil
	}
	hashes, isBag, err = catalog.IsBag(r.source)
	if _, unsupported := errors.AsType[*bag.UnsupportedError](err); unsupported {
		return nil, false, failure.Refuse("the source %s is a bag: %s; --source-manifest=ignore copies it without a check", quoteName(r.opts.Source), err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, false, nil // the walk reports a source that must not be read
	}
	if err != nil {
		return nil, false, failure.Refuse("source %s: cannot check whether it is a bag: %s", quoteName(r.opts.Source), err)
	}
	return hashes, isBag, nil
}

// checkOxum compares the number of bytes and files that were read of the payload with
// Payload-Oxum in bag-info.txt of the source. It checks nothing after an error or an
// interrupted copy, because the count is too small then.
func (r *run) checkOxum() {
	if !r.validates {
		return
	}
	r.collector.await()
	want, file := r.manifests.Oxum()
	if want != nil && *want != *r.collector.payload && r.collector.summary.Errors == 0 && r.ctx.Err() == nil {
		err := fmt.Errorf("%s is %s, and the payload has %s (bytes.files)", bag.LabelOxum, want, *r.collector.payload)
		r.report(event.OfFile(event.Mismatch, file, "", failure.StageVerify, err))
	}
}
