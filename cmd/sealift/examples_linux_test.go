package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExamples lets systemd and udev read the files of examples/, and runs the commands of the services with
// what systemd would put in place of the specifiers.
func TestExamples(t *testing.T) {
	const card = "1234-ABCD"
	s := newStage(t)
	texts := map[string]string{}
	names, err := filepath.Glob(filepath.Join("..", "..", "examples", "*"))
	require.NoError(t, err)
	var units []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		base := filepath.Base(name)
		texts[base] = string(text)
		if filepath.Ext(name) != ".rules" {
			units = append(units, filepath.Join(s.dir, base))
		}
		copied := strings.ReplaceAll(string(text), "=sealift ", "="+s.bin+"/sealift ")
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, base), []byte(copied), 0o644)) //nolint:gosec // as users have it
	}
	values := strings.NewReplacer("$$", "$", "%f", s.dir+"/mnt/archive", "%S", s.dir+"/state", "%C", s.dir+"/cache", "%i", card,
		"/run/", s.dir+"/run/", "/media/", s.dir+"/media/")
	command := func(unit string) string {
		t.Helper()
		lines := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindAllStringSubmatch(texts[unit], -1)
		require.Len(t, lines, 1, unit)
		return "exec " + values.Replace(lines[0][1])
	}
	run := func(want int, command string) string {
		t.Helper()
		code, output := s.run(nil, "sh", "-c", command)
		assert.Equal(t, want, code, "%s\n%s", command, output)
		return output
	}

	t.Run("systemd", func(t *testing.T) {
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			t.Skip("systemd-analyze is not installed")
		}
		code, output := s.run(nil, "systemd-analyze", append([]string{"--man=no", "verify"}, units...)...)
		assert.Equal(t, 0, code, output)
		assert.NotContains(t, output, s.dir, "systemd complains")
	})
	t.Run("udev", func(t *testing.T) {
		if exec.Command("udevadm", "verify", "--help").Run() != nil {
			t.Skip("udevadm verify, which is in systemd 254 and later, is not installed")
		}
		code, output := s.run(nil, "udevadm", "verify", filepath.Join(s.dir, "90-sealift-card.rules"))
		assert.Equal(t, 0, code, output)
	})
	t.Run("scrub", func(t *testing.T) {
		const unit = "sealift-scrub@.service"
		shell(t, s.dir, "mkdir -p state/sealift cache/sealift && sealift copy -q photos mnt/archive")
		assert.Contains(t, run(0, command(unit)), "3 of 3 files")
		assert.True(t, s.exists("cache/sealift/"+card+".prom"))
		shell(t, s.dir, "rm mnt/archive/a.jpg")
		assert.Contains(t, run(3, command(unit)), "a.jpg: MISSING")
		assert.Regexp(t, `(?m)^SuccessExitStatus=143$`, texts[unit], "a stop is no failure, and damage is one")
		assert.Regexp(t, `(?m)^OnFailure=sealift-alert@%n\.service$`, texts[unit])
	})
	t.Run("card", func(t *testing.T) {
		shell(t, s.dir, "mkdir -p run/sealift-card media/disk1 media/disk2 && cp -a photos run/sealift-card/"+card)
		for range 2 { // the second time, all files are up to date
			assert.Contains(t, run(0, command("sealift-card@.service")), "complete: ")
		}
		run(0, "sealift compare photos media/disk1/"+card+" media/disk2/"+card)
		assert.True(t, s.exists("media/disk1/"+card+".html"))
		rule := regexp.MustCompile(`(?m)^ACTION.*$`).FindString(texts["90-sealift-card.rules"])
		assert.Contains(t, rule, `ENV{SYSTEMD_WANTS}+="sealift-card@$env{ID_FS_UUID_ENC}.service"`)
	})
	t.Run("alert", func(t *testing.T) {
		for name, script := range map[string]string{
			"systemctl": `for last; do :; done; echo "$1 of $last"`,
			"mail":      `printf '%s\n' "$@" >mail.txt; cat >>mail.txt`,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(s.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755)) //nolint:gosec // a program
		}
		run(0, command("sealift-alert@.service"))
		mail, err := os.ReadFile(filepath.Join(s.dir, "mail.txt"))
		require.NoError(t, err)
		assert.Regexp(t, "^-s\n"+card+" on .+: show of "+card+"\nroot\nstatus of "+card+"\n$", string(mail))
	})
}
