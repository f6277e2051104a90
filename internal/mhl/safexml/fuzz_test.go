package safexml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzReader checks that the plain decoder reads an accepted document in the same way. The result
// must not depend on the pieces in which the bytes arrive.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"<a/>", "\xef\xbb\xbf<?xml version='1.0' encoding='UTF-8'?><a b='c'><!-- d -->e&amp;<![CDATA[f]]></a>\n",
		"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a><a><a><a/></a></a></a>", "<a b='1' b='2'/>", "\xff\xfe<\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		list, err := tokens(NewReader(bytes.NewReader(document)))
		byBytes, errByBytes := tokens(NewReader(iotest.OneByteReader(bytes.NewReader(document))))
		if err.Error() != errByBytes.Error() || len(list) != len(byBytes) {
			t.Fatalf("%q: %v; byte by byte %v", document, err, errByBytes)
		}
		if !errors.Is(err, io.EOF) {
			if !errors.As(err, new(*Error)) {
				t.Fatalf("%q: %v", document, err)
			}
			return
		}
		plain := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(document, []byte("\xef\xbb\xbf"))))
		elements := 0
		for {
			token, err := plain.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q was accepted: %v", document, err)
			}
			switch token.(type) {
			case xml.StartElement:
				elements++
			case xml.Directive:
				t.Fatalf("%q was accepted", document)
			}
		}
		if elements == 0 {
			t.Fatalf("%q was accepted", document)
		}
	})
}
