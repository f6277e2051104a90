//go:build linux

package rigs

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// A snapshot has the files that goreleaser makes without a release.
type snapshot struct {
	dir     string
	Version string
	Commit  string
	date    time.Time // of the commit
	pages   []string  // man pages, without a directory
}

// platforms are the platforms of a release, as in the names of files.
var platforms = []string{
	"linux_amd64", "linux_arm64", "linux_386", "linux_armv7", "linux_riscv64",
	"darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64",
}

// TestSnapshot checks the files that make snapshot has built. SEALIFT_SNAPSHOT names their
// directory, and SEALIFT_SNAPSHOT_CLONE the one in which they were built.
func TestSnapshot(t *testing.T) {
	dir := os.Getenv("SEALIFT_SNAPSHOT")
	if dir == "" {
		t.Skip("make snapshot runs it, on what it has built")
	}
	s := readSnapshot(t, dir)
	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) { s.checkArchive(t, platform) })
	}
	t.Run("checksums", s.checkSums)
	t.Run("runs", s.checkRuns)
	t.Run("deb", s.checkDeb)
	t.Run("rpm", s.checkRPM)
	t.Run("cask", s.checkCask)
	t.Run("scoop", s.checkScoop)
	t.Run("winget", s.checkWinget)
	t.Run("aur", s.checkAUR)
	t.Run("nix", s.checkNix)
}

func readSnapshot(t *testing.T, dir string) *snapshot {
	t.Helper()
	s := &snapshot{dir: dir}
	data, err := os.ReadFile(filepath.Join(dir, "metadata.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, s))
	require.Len(t, s.Commit, 40, "the commit")
	date := output(t, "git", "-C", repository, "show", "-s", "--format=%cI", s.Commit)
	s.date, err = time.Parse(time.RFC3339, strings.TrimSpace(date))
	require.NoError(t, err)

	man := t.TempDir()
	output(t, program(t), "man", man)
	pages, err := os.ReadDir(man)
	require.NoError(t, err)
	for _, p := range pages {
		s.pages = append(s.pages, p.Name())
	}
	return s
}

// file returns the path of the release file for a platform.
func (s *snapshot) file(platform, suffix string) string {
	return filepath.Join(s.dir, "sealift_"+s.Version+"_"+platform+suffix)
}

func (s *snapshot) archive(platform string) string {
	if strings.HasPrefix(platform, "windows_") {
		return s.file(platform, ".zip")
	}
	return s.file(platform, ".tar.gz")
}

func (s *snapshot) checkArchive(t *testing.T, platform string) {
	name, members := "sealift", readTar
	if strings.HasPrefix(platform, "windows_") {
		name, members = "sealift.exe", readZip
	}
	files := members(t, s.archive(platform))

	want := []string{
		name, "LICENSE", "README.md", "CHANGELOG.md",
		"completions/sealift.bash", "completions/_sealift", "completions/sealift.fish", "completions/sealift.ps1",
	}
	for _, page := range s.pages {
		want = append(want, "man/"+page)
	}
	for _, example := range examples(t) {
		want = append(want, "examples/"+example)
	}
	var have []string
	for file, m := range files {
		have = append(have, file)
		mode := fs.FileMode(0o644)
		if file == name {
			mode = 0o755
		}
		assert.Equal(t, mode, m.mode, "the mode of %s", file)
		assert.WithinDuration(t, s.date, m.mtime, 2*time.Second, "the time of %s", file) // a zip archive stores multiples of two seconds
		assert.Contains(t, []string{"", "root:root"}, m.owner, "the owner of %s", file)
		assert.NotEmpty(t, m.data, file)
	}
	assert.ElementsMatch(t, want, have)
	assert.Contains(t, string(files["man/sealift-copy.1"].data), s.date.UTC().Format(time.DateOnly), "the date of a man page")
	assert.Contains(t, string(files["man/sealift-copy.1"].data),
		"sealift v"+strings.ReplaceAll(s.Version, "-", `\-`), "the version in a man page")
	s.checkProgram(t, platform, files[name].data)
	s.checkParts(t, platform, files[name].data)
}

// examples returns the names in the directory examples.
func examples(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repository, "examples"))
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// checkProgram reads the build information, and searches for paths of this machine.
func (s *snapshot) checkProgram(t *testing.T, platform string, program []byte) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	require.NoError(t, err)
	assert.Equal(t, modulePath+"/cmd/sealift", info.Path)
	system, processor, _ := strings.Cut(platform, "_")
	want := map[string]string{
		"GOOS": system, "GOARCH": processor, "CGO_ENABLED": "0", "-trimpath": "true",
		"vcs.revision": s.Commit, "vcs.time": s.date.UTC().Format(time.RFC3339), "vcs.modified": "false",
	}
	if processor == "armv7" {
		want["GOARCH"], want["GOARM"] = "arm", "7"
	}
	have := map[string]string{}
	for _, setting := range info.Settings {
		if _, ok := want[setting.Key]; ok {
			have[setting.Key] = setting.Value
		}
	}
	assert.Equal(t, want, have)
	assert.True(t, bytes.Contains(program, []byte("v"+s.Version)), "the version")

	paths := strings.Fields(output(t, "go", "env", "GOROOT", "GOMODCACHE", "GOCACHE"))
	paths = append(paths, filepath.Dir(s.dir), os.Getenv("SEALIFT_SNAPSHOT_CLONE"))
	for _, p := range paths {
		if p != "" {
			assert.False(t, bytes.Contains(program, []byte(p)), "%s is in the program", p)
		}
	}
}

// checkParts compares the list of parts with the build information.
func (s *snapshot) checkParts(t *testing.T, platform string, program []byte) {
	data, err := os.ReadFile(s.file(platform, ".cdx.json"))
	require.NoError(t, err)
	var list struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Version string }
		}
		Components []struct{ Name, Version string }
	}
	require.NoError(t, json.Unmarshal(data, &list))
	assert.Equal(t, "CycloneDX", list.Format)
	assert.Equal(t, "v"+s.Version, list.Metadata.Component.Version)

	info, err := buildinfo.Read(bytes.NewReader(program))
	require.NoError(t, err)
	want := []string{"std " + info.GoVersion}
	for _, d := range info.Deps {
		want = append(want, d.Path+" "+d.Version)
	}
	var have []string
	for _, c := range list.Components {
		have = append(have, c.Name+" "+c.Version)
	}
	assert.ElementsMatch(t, want, have)
}

// checkSums checks that every released file is listed, and verifies the list with the
// program itself.
func (s *snapshot) checkSums(t *testing.T) {
	var want []string
	for _, pattern := range []string{"*.tar.gz", "*.zip", "*.deb", "*.rpm", "*.cdx.json"} {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		require.NoError(t, err)
		for _, f := range found {
			want = append(want, filepath.Base(f))
		}
	}
	sums := s.sums(t)
	var have []string
	for name := range sums {
		have = append(have, name)
		assert.Regexp(t, `^[A-Za-z0-9._-]+$`, name, "GitHub would give it another name")
	}
	assert.ElementsMatch(t, want, have)
	assert.Len(t, have, 2*len(platforms)+2*5, "an archive and a list for each, two packages for each Linux")

	output(t, program(t), "verify", s.dir)
	if needs(t, "sha256sum") {
		out, err := command(t, s.dir, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		assert.NoError(t, err, "%s", out)
	}
}

func (s *snapshot) sums(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "SHA256SUMS"))
	require.NoError(t, err)
	sums := map[string]string{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		require.Len(t, fields, 2, line)
		sums[fields[1]] = fields[0]
	}
	return sums
}

// checkRuns starts the program for this machine.
func (s *snapshot) checkRuns(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sealift")
	data := readTar(t, s.archive("linux_"+runtime.GOARCH))["sealift"].data
	require.NoError(t, os.WriteFile(program, data, 0o700)) //nolint:gosec // a program
	var version struct{ Version, Commit, Platform string }
	require.NoError(t, json.Unmarshal([]byte(output(t, program, "version", "--json")), &version))
	assert.Equal(t, "v"+s.Version, version.Version)
	assert.Equal(t, s.Commit, version.Commit)
	assert.Equal(t, "linux/"+runtime.GOARCH, version.Platform)
}

// packaged returns where every package has to install which file, with its content.
func (s *snapshot) packaged(t *testing.T) map[string][]byte {
	files := readTar(t, s.archive("linux_amd64"))
	want := map[string][]byte{
		"usr/bin/sealift": files["sealift"].data,
		"usr/share/bash-completion/completions/sealift":    files["completions/sealift.bash"].data,
		"usr/share/fish/vendor_completions.d/sealift.fish": files["completions/sealift.fish"].data,
		"usr/share/doc/sealift/copyright":                  files["LICENSE"].data,
		"usr/share/doc/sealift/README.md":                  files["README.md"].data,
		"usr/share/doc/sealift/changelog.gz":               files["CHANGELOG.md"].data,
	}
	for _, example := range examples(t) {
		want["usr/share/doc/sealift/examples/"+example] = files["examples/"+example].data
	}
	for _, page := range s.pages {
		want["usr/share/man/man1/"+page+".gz"] = files["man/"+page].data
	}
	return want
}

// checkTree compares a directory with the files that a package has to install.
func checkTree(t *testing.T, root string, want map[string][]byte) {
	t.Helper()
	var have []string
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if rel == "var" || rel == "etc" {
			return fs.SkipDir // files of dpkg itself
		}
		if d.IsDir() {
			return nil
		}
		have = append(have, rel)
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(rel, ".gz") {
			data = unzip(t, data)
		}
		assert.True(t, bytes.Equal(want[rel], data), "%s differs from the archive", rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if rel == "usr/bin/sealift" {
			mode = 0o755
		}
		assert.Equal(t, mode, info.Mode(), rel)
		return nil
	}))
	var names []string
	for name := range want {
		names = append(names, name)
	}
	assert.ElementsMatch(t, names, have)
}

// checkDeb installs the package below an empty root, and removes it.
func (s *snapshot) checkDeb(t *testing.T) {
	deb := s.packageFile(t, "*_amd64.deb")
	if needs(t, "lintian") {
		out, err := command(t, s.dir, "lintian", "--fail-on", "error", "--allow-root", deb)
		assert.NoError(t, err, "%s", out)
		t.Log(out) // warnings
	}
	if !needs(t, "dpkg") || os.Geteuid() != 0 {
		t.Skip("installing needs dpkg, and root")
	}
	root := t.TempDir()
	state := filepath.Join(root, "var", "lib", "dpkg")
	for _, dir := range []string{"info", "updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(state, dir), 0o755)) //nolint:gosec // as dpkg has it
	}
	for _, file := range []string{"status", "available"} {
		require.NoError(t, os.WriteFile(filepath.Join(state, file), nil, 0o600))
	}
	dpkg := []string{"--root=" + root, "--log=/dev/null", "--force-depends", "--force-architecture"}
	output(t, "dpkg", append(slices.Clone(dpkg), "--install", deb)...)
	want := s.packaged(t)
	want["usr/share/zsh/vendor-completions/_sealift"] = readTar(t, s.archive("linux_amd64"))["completions/_sealift"].data
	want["usr/share/lintian/overrides/sealift"] = []byte("sealift: statically-linked-binary")
	want["usr/share/doc/sealift/changelog.Debian.gz"] = fmt.Appendf(nil, `sealift (%s-1) unstable; urgency=medium

  * The changes are in changelog.gz.

 -- The Sealift authors <sealift@users.noreply.github.com>  %s
`, strings.Replace(s.Version, "-", "~", 1), s.date.UTC().Format("Mon, 2 Jan 2006 15:04:05 -0700"))
	checkTree(t, root, want)
	output(t, "dpkg", append(slices.Clone(dpkg), "--remove", "sealift")...)
	checkTree(t, root, nil)
	assert.NoDirExists(t, filepath.Join(root, "usr"))
}

// checkRPM unpacks the package, and checks its description.
func (s *snapshot) checkRPM(t *testing.T) {
	file := s.packageFile(t, "*.x86_64.rpm")
	if !needs(t, "rpm", "rpm2cpio", "cpio") {
		t.Skip("needs rpm, rpm2cpio and cpio")
	}
	want := s.packaged(t)
	want["usr/share/zsh/site-functions/_sealift"] = readTar(t, s.archive("linux_amd64"))["completions/_sealift"].data
	var names []string
	for name := range want {
		names = append(names, "/"+name)
	}
	assert.ElementsMatch(t, names, strings.Fields(output(t, "rpm", "-qpl", "--nosignature", file)))
	assert.Equal(t, "sealift MIT sealift "+s.date.UTC().Format("20060102"),
		output(t, "rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{LICENSE} %{BUILDHOST} ", file)+
			time.Unix(buildTime(t, file), 0).UTC().Format("20060102"))
	root := t.TempDir() // the names in it are absolute
	out, err := command(t, root, "sh", "-c", `rpm2cpio "$1" | cpio --extract --quiet --make-directories --no-absolute-filenames`, "sh", file)
	require.NoError(t, err, "%s", out)
	checkTree(t, root, want)
}

func buildTime(t *testing.T, file string) int64 {
	t.Helper()
	var seconds int64
	require.NoError(t, json.Unmarshal([]byte(output(t, "rpm", "-qp", "--nosignature", "--qf", "%{BUILDTIME}", file)), &seconds))
	return seconds
}

func (s *snapshot) packageFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.dir, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// checkCask reads the cask of Homebrew. Its digests are those of the archives, and the
// archives contain the files that it installs.
func (s *snapshot) checkCask(t *testing.T) {
	name := filepath.Join(s.dir, "homebrew", "Casks", "sealift.rb")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	cask := string(data)
	sums := s.sums(t)
	var digests, want []string
	for _, platform := range []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"} {
		want = append(want, sums[filepath.Base(s.archive(platform))])
	}
	for _, m := range regexp.MustCompile(`sha256 "([0-9a-f]{64})"`).FindAllStringSubmatch(cask, -1) {
		digests = append(digests, m[1])
	}
	assert.ElementsMatch(t, want, digests)
	var pages []string
	for _, m := range regexp.MustCompile(`manpage "man/(.*)"`).FindAllStringSubmatch(cask, -1) {
		pages = append(pages, m[1])
	}
	assert.ElementsMatch(t, s.pages, pages)
	assert.Contains(t, cask, `"{{staged_path}}/sealift"`, "what Homebrew is to expand")
	assert.NotContains(t, cask, "postflight do")
	if needs(t, "ruby") {
		output(t, "ruby", "-c", name)
	}
}

// described checks that the description of a package has the archive of each platform, with its
// digest. Pattern matches a URL and the digest after it.
func (s *snapshot) described(t *testing.T, text, pattern string, platforms ...string) {
	t.Helper()
	sums := s.sums(t)
	want, have := map[string]string{}, map[string]string{}
	for _, platform := range platforms {
		name := filepath.Base(s.archive(platform))
		want[name] = sums[name]
	}
	for _, m := range regexp.MustCompile(`https://`+modulePath+`/releases/download/v[0-9.]+/(\S+?\.(?:zip|tar\.gz))`+pattern).FindAllStringSubmatch(text, -1) {
		have[m[1]] = m[2]
	}
	assert.Equal(t, want, have)
}

func (s *snapshot) read(t *testing.T, name ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{s.dir}, name...)...))
	require.NoError(t, err)
	return string(data)
}

func (s *snapshot) checkScoop(t *testing.T) {
	text := s.read(t, "scoop", "sealift.json")
	require.True(t, json.Valid([]byte(text)))
	s.described(t, text, `",\s+"bin": \[\s+"sealift.exe"\s+\],\s+"hash": "([0-9a-f]{64})`, "windows_amd64", "windows_arm64")
}

func (s *snapshot) checkWinget(t *testing.T) {
	dir := []string{"winget", "manifests", "s", "Seed65876f4f", "Sealift", s.Version}
	for name, kind := range map[string]string{"": "version", ".installer": "installer", ".locale.en-US": "defaultLocale"} {
		text := s.read(t, append(dir, "Seed65876f4f.Sealift"+name+".yaml")...)
		var manifest struct {
			ID      string `yaml:"PackageIdentifier"`
			Version string `yaml:"PackageVersion"`
			Kind    string `yaml:"ManifestType"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &manifest))
		assert.Equal(t, "Seed65876f4f.Sealift "+s.Version+" "+kind, manifest.ID+" "+manifest.Version+" "+manifest.Kind)
		if kind == "installer" {
			s.described(t, text, `\n +InstallerSha256: ([0-9a-f]{64})`, "windows_amd64", "windows_arm64")
		}
	}
}

// checkAUR runs the commands that make the package of Arch Linux.
func (s *snapshot) checkAUR(t *testing.T) {
	recipe := s.read(t, "aur", "sealift-bin.pkgbuild")
	platforms := []string{"linux_386", "linux_amd64", "linux_arm64", "linux_armv7"}
	s.described(t, recipe, `"\)\nsha256sums_\w+=\('([0-9a-f]{64})'`, platforms...)
	s.described(t, s.read(t, "aur", "sealift-bin.srcinfo"), `\n\tsha256sums_\w+ = ([0-9a-f]{64})`, platforms...)
	assert.Contains(t, recipe, "pkgver="+strings.ReplaceAll(s.Version, "-", "_")+"\n")
	root := t.TempDir()
	s.install(t, "linux_amd64", recipe+"\npackage\n", "pkgdir="+root)
	checkTree(t, root, s.shared(t, map[string]string{"usr/share/licenses/sealift-bin/LICENSE": "LICENSE"}))
}

// checkNix evaluates the package of Nix for each system, and runs its commands.
func (s *snapshot) checkNix(t *testing.T) {
	if !needs(t, "nix-hash", "nix-instantiate") {
		t.Skip("GoReleaser needs nix-hash to make it")
	}
	for system, platform := range map[string]string{
		"x86_64-linux": "linux_amd64", "aarch64-linux": "linux_arm64", "i686-linux": "linux_386", "armv7l-linux": "linux_armv7",
		"x86_64-darwin": "darwin_amd64", "aarch64-darwin": "darwin_arm64",
	} {
		out := output(t, "nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "-E", `import `+filepath.Join(s.dir, "nix/pkgs/sealift/default.nix")+` {
			lib = { licenses.mit = "MIT"; sourceTypes.binaryNativeCode = "binary"; };
			fetchurl = x: x;
			installShellFiles = null;
			stdenvNoCC = { hostPlatform.system = "`+system+`"; mkDerivation = x: x; };
		}`)
		var built struct {
			Version, InstallPhase string
			Src                   struct{ URL, SHA256 string }
		}
		require.NoError(t, json.Unmarshal([]byte(out), &built))
		assert.Equal(t, s.Version, built.Version)
		digest := strings.TrimSpace(output(t, "nix-hash", "--to-base16", "--type", "sha256", built.Src.SHA256))
		s.described(t, built.Src.URL+" "+digest, ` ([0-9a-f]{64})`, platform)
		root := t.TempDir()
		s.install(t, platform, built.InstallPhase, "out="+root)
		if platform == "linux_amd64" {
			require.NoError(t, os.Mkdir(filepath.Join(root, "usr"), 0o700))
			for _, name := range []string{"bin", "share"} {
				require.NoError(t, os.Rename(filepath.Join(root, name), filepath.Join(root, "usr", name)))
			}
			checkTree(t, root, s.shared(t, nil))
		}
	}
}

// install runs commands in a directory that has the files of an archive.
func (s *snapshot) install(t *testing.T, platform, commands, variable string) {
	t.Helper()
	dir := t.TempDir()
	output(t, "tar", "-xzf", s.archive(platform), "-C", dir)
	out, err := command(t, dir, "env", variable, "bash", "-euc", commands)
	require.NoError(t, err, "%s", out)
}

// shared returns the files that a package without compression installs, with further ones from
// the archive.
func (s *snapshot) shared(t *testing.T, further map[string]string) map[string][]byte {
	names := map[string]string{
		"usr/bin/sealift": "sealift",
		"usr/share/bash-completion/completions/sealift":    "completions/sealift.bash",
		"usr/share/zsh/site-functions/_sealift":            "completions/_sealift",
		"usr/share/fish/vendor_completions.d/sealift.fish": "completions/sealift.fish",
	}
	for _, page := range s.pages {
		names["usr/share/man/man1/"+page] = "man/" + page
	}
	maps.Copy(names, further)
	files := readTar(t, s.archive("linux_amd64"))
	want := map[string][]byte{}
	for name, member := range names {
		want[name] = files[member].data
	}
	return want
}

// needs reports whether programs are installed, and logs those that are not.
func needs(t *testing.T, programs ...string) bool {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Logf("NOT CHECKED by %s: %v", p, err)
			return false
		}
	}
	return true
}

// command runs a program in a directory.
func command(t *testing.T, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
