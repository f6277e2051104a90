package safexml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// FuzzReader checks that the plain decoder reads an accepted document in the same way, and
// that limits hold. The result must not depend on the pieces in which the bytes arrive.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"<a/>", "\xef\xbb\xbf<?xml version='1.0' encoding='UTF-8'?><a b='c'><!-- d -->e&amp;<![CDATA[f]]></a>\n",
		"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "<a><a><a><a/></a></a></a>", "<a b='1' b='2'/>", "\xff\xfe<\x00",
	} {
		f.Add([]byte(seed))
	}
	limits := Limits{Bytes: 200, Depth: 3, Token: 20, Attributes: 2}
	f.Fuzz(func(t *testing.T, document []byte) {
		list, err := tokens(NewReader(bytes.NewReader(document), limits))
		byBytes, errByBytes := tokens(NewReader(iotest.OneByteReader(bytes.NewReader(document)), limits))
		if err.Error() != errByBytes.Error() || len(list) != len(byBytes) {
			t.Fatalf("%q: %v; byte by byte %v", document, err, errByBytes)
		}
		for _, token := range list {
			if len(token) > limits.Token+1 { // of a tag, one byte more is read
				t.Fatalf("%q: long token %q", document, token)
			}
		}
		if !errors.Is(err, io.EOF) {
			if !errors.As(err, new(*Error)) {
				t.Fatalf("%q: %v", document, err)
			}
			return
		}
		if len(document) > 203 {
			t.Fatalf("%d bytes were accepted", len(document))
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
