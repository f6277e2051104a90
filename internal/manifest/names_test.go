package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		algorithm, file, extension string
		tags                       []string
	}{
		{"sha256", "SHA256SUMS", "sha256", []string{"SHA256", "SHA2-256"}},
		{"sha512", "SHA512SUMS", "sha512", []string{"SHA512", "SHA2-512"}},
		{"md5", "MD5SUMS", "md5", []string{"MD5"}},
		{"blake3", "BLAKE3SUMS", "blake3", []string{"BLAKE3"}},
		{"xxh128", "XXH128SUMS", "xxh128", []string{"XXH128"}},
		{"none", "", "", nil},
		{"", "", "", nil},
		{"SHA256", "", "", nil},
	} {
		require.Equal(t, tt.file, FileName(tt.algorithm))
		require.Equal(t, tt.extension, Extension(tt.algorithm))
		require.Equal(t, tt.tags, Tags(tt.algorithm))
	}
}
