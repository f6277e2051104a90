package decode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed65876f4f/sealift/tools/kubernetes"
)

func TestJobsDecodeStrictly(t *testing.T) {
	files, err := kubernetes.Examples()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		jobs, err := kubernetes.Read(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(jobs) != 2 {
			t.Errorf("%s has %d jobs", file, len(jobs))
		}
		for _, job := range jobs {
			pod := job.Spec.Template.Spec
			if pod.SecurityContext.RunAsUser == nil || pod.SecurityContext.FSGroup != nil {
				t.Errorf("%s: %s has no user, or changes the group of files", file, job.Name)
			}
			if mount := pod.Containers[0].VolumeMounts[0]; mount.Name != "source" || !mount.ReadOnly {
				t.Errorf("%s: %s may write to the source", file, job.Name)
			}
		}
	}
}

// A field that the API does not have is found.
func TestAMisspeltFieldIsFound(t *testing.T) {
	files, err := kubernetes.Examples()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), "readOnly:", "readonly:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.Read(broken); err == nil {
		t.Error("readonly was taken for a field")
	}
}
