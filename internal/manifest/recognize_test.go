package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed65876f4f/sealift/internal/hash"
)

func requireRecognized(t *testing.T, name string, algorithm hash.Algorithm, format Format) {
	t.Helper()
	for _, spelled := range []string{name, strings.ToUpper(name), strings.ToLower(name)} {
		a, f, ok := Recognize(spelled)
		require.True(t, ok, spelled)
		require.Equal(t, algorithm, a, spelled)
		require.Equal(t, format, f, spelled)
		a, f = AlgorithmIn(spelled)
		require.Equal(t, algorithm, a, spelled)
		require.Equal(t, format, f, spelled)
	}
}

func TestRecognize(t *testing.T) {
	for _, algorithm := range hash.All() {
		a := string(algorithm)
		upper := strings.ToUpper(a)
		for _, name := range []string{
			upper + "SUMS", upper + "SUMS.txt", a + "sum.txt",
			"film.mkv." + a, "sealift." + a, "." + a, "a b." + a, "film.mkv." + a + "sum", "all." + a + "sums",
			"all." + a + "sum.txt",
		} {
			requireRecognized(t, name, algorithm, GNU)
		}
		if !algorithm.Ambiguous() {
			for _, name := range []string{"film.mkv." + a + ".txt", a + "-2024-05-01.txt", a + "-.txt", a + "-a-b.c.txt"} {
				requireRecognized(t, name, algorithm, GNU)
			}
			requireRecognized(t, "manifest-"+a+".txt", algorithm, BagIt)
			requireRecognized(t, "tagmanifest-"+a+".txt", algorithm, BagIt)
		}
		for _, name := range []string{
			a, a + "sum", a + ".txt", a + "s", "x-" + a, a + "-x", upper + "SUMS.asc", upper + "SUMS.gpg", upper + "SUMS.txt.sig",
			"x" + upper + "SUMS", "manifest-" + a, "manifest-" + a + ".txt.old", "xmanifest-" + a + ".txt",
			"tagtagmanifest-" + a + ".txt", "manifest-x" + a + ".txt", "x." + a + "x", "x" + a, "x." + a + ".lst", "x." + a + "s",
		} {
			_, _, ok := Recognize(name)
			require.False(t, ok, name)
		}
		for _, name := range []string{"journal." + a, "journal-" + a + ".txt", "x." + a + "sums"} {
			_, _, ok := Recognize(".sealift-" + name)
			require.False(t, ok, name)
			requireRecognized(t, "sealift-."+a, algorithm, GNU)
		}
		if algorithm.FileName() != "" {
			requireRecognized(t, algorithm.FileName(), algorithm, GNU)
			requireRecognized(t, "x."+algorithm.Extension(), algorithm, GNU)
		}
	}
	requireRecognized(t, ".sealift.sha256", "sha256", GNU)
	requireRecognized(t, ".seal.sha256", "sha256", GNU)
	for _, name := range []string{"shasum.txt", "shasum.2024-05-01.txt", "shasum_a.txt", "shasums.txt"} {
		requireRecognized(t, name, "sha256", GNU)
	}
	for _, name := range []string{"x.b3", "x.b3sum", "x.b3sums", "B3SUMS", "b3sum.txt", "x.b3.txt"} {
		requireRecognized(t, name, "blake3", GNU)
	}
	for _, name := range []string{
		"", ".", ".txt", "x", "SUMS", "sums.txt", "sum.txt", "-.txt", "x-y.txt", "manifest-.txt", "manifest.txt", "manifest-sha9.txt",
		"CHECKSUMS", "checksums.txt", "shasum", "shasum.lst", "sha256sum.exe", "x.sha", "x.sha2", "x.sha3256", "x.b3s", "b3", "b3.txt",
		"c4", "c4.txt", "c4-report.txt", "C4-2026-01-01.txt", "shots.c4.txt", "manifest-c4.txt", "tagmanifest-C4.txt", "x.c4d",
		"x.sh\xc3\x85256", "BLA\u212aE3SUMS", "x.\u017fha256", "x.sha256\xff",
	} {
		_, _, ok := Recognize(name)
		require.False(t, ok, "%q", name)
	}
}

func TestAlgorithmIn(t *testing.T) {
	for name, want := range map[string]hash.Algorithm{
		"backup-sha512.lst":           "sha512",
		"backup_sha384":               "sha384",
		"sha224":                      "sha224",
		"sha256.txt":                  "sha256",
		"md5sum":                      "md5",
		"release_1.0_SHA256SUMS":      "sha256",
		"SHA256SUMS.asc":              "sha256",
		"SHA512SUMS-x86_64":           "sha512",
		"SHA-256.lst":                 "sha256",
		"list.sha-1":                  "sha1",
		"sha_512_sums":                "sha512",
		"sha2-384.lst":                "sha384",
		"old b3sum list":              "blake3",
		"xxh128sums of (disk 1)":      "xxh128",
		"sha256 sha256sum of all":     "sha256",
		"release_XXH64SUMS":           "xxh64",
		"xxh3.lst":                    "xxh3",
		"all-c4sums.lst":              "c4",
		"camera-c4.lst":               "",
		"C4 sha256.lst":               "sha256",
		"md5 and sha256.lst":          "",
		"sha256-and-md5.lst":          "",
		"CHECKSUM":                    "",
		"":                            "",
		"mysha256.lst":                "",
		"sha2567.lst":                 "",
		"\xc3\xa4sha256.lst":          "",
		"\xffmd5.lst":                 "",
		"sha9-256.lst":                "",
		"sha-9.lst":                   "",
		"256-sha.lst":                 "",
		"b3.lst":                      "",
		"backup-b3-2024":              "",
		"my-shasum.lst":               "",
		".sealift-journal.sha256":     "sha256",
		"archive.manifest-sha512.txt": "sha512",
	} {
		algorithm, format := AlgorithmIn(name)
		require.Equal(t, want, algorithm, name)
		require.Equal(t, GNU, format, name)
	}
}
