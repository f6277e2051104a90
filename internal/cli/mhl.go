package cli

import (
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/seed65876f4f/sealift/internal/hash"
	"github.com/seed65876f4f/sealift/internal/mhl/classic"
)

// classicMHL is the word of --mhl for a media hash list of version 1.
const classicMHL = "classic"

// parseMHL reads the value of --mhl: "classic", and perhaps the digests of the list behind it.
func parseMHL(text string) ([]hash.Algorithm, error) {
	kind, list, several := strings.Cut(text, ",")
	if kind != classicMHL {
		return nil, usagef("%q is not a kind of media hash list; the kind is classic", kind)
	}
	if !several {
		return classic.Algorithms()[:1], nil
	}
	hashes, err := hash.Parse(list)
	if err != nil {
		return nil, err
	}
	for _, a := range hashes {
		if !slices.Contains(classic.Algorithms(), a) {
			return nil, usagef("a media hash list has no digests of %s; choose from %s", a, inWords(mhlHashes()))
		}
	}
	return hashes, nil
}

// mhlHashes lists the digests of media hash lists.
func mhlHashes() (names []string) {
	for _, a := range classic.Algorithms() {
		names = append(names, string(a))
	}
	return names
}

// mhlFlag defines --mhl.
func mhlFlag(s *pflag.FlagSet, target *[]hash.Algorithm) {
	s.Var(newList(target, "", parseMHL, nil, append([]string{classicMHL}, mhlHashes()...)), "mhl",
		"write a media hash list (MHL 1.1) into the directory, named after it and the time: `KIND` is classic, or classic and a list of digests, such as classic,md5 (default of the list: "+string(classic.Algorithms()[0])+")")
}

// mhlCreator is what a media hash list says about its origin.
func mhlCreator() *classic.Creator {
	c := &classic.Creator{User: "unknown", Host: "unknown", Tool: readBuild().line()}
	if host, err := os.Hostname(); err == nil {
		c.Host = host
	}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
		c.Name, _, _ = strings.Cut(u.Name, ",") // the first field of passwd's
	}
	return c
}
