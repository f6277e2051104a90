package validate

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/batch"
	defaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	"k8s.io/kubernetes/pkg/apis/batch/validation"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/seed65876f4f/sealift/tools/kubernetes"
)

// validate does what an API server does with a Job that is created: it sets defaults, adds the
// selector and its labels, and validates.
func validate(t *testing.T, job *batchv1.Job) field.ErrorList {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{defaults.AddToScheme, batch.AddToScheme, coredefaults.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	job = job.DeepCopy()
	scheme.Default(job)
	job.Namespace, job.UID = "default", "01234567-89ab-cdef-0123-456789abcdef"
	uid := map[string]string{batchv1.ControllerUidLabel: string(job.UID)}
	job.Spec.Selector = &meta.LabelSelector{MatchLabels: uid}
	for name, value := range map[string]string{
		batchv1.ControllerUidLabel: string(job.UID), "controller-uid": string(job.UID),
		batchv1.JobNameLabel: job.Name, "job-name": job.Name,
	} {
		job.Spec.Template.Labels[name] = value
	}
	internal := &batch.Job{}
	if err := scheme.Convert(job, internal, nil); err != nil {
		t.Fatal(err)
	}
	return validation.ValidateJob(internal, validation.JobValidationOptions{RequirePrefixedLabels: true})
}

func examples(t *testing.T) (jobs []*batchv1.Job) {
	t.Helper()
	files, err := kubernetes.Examples()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		read, err := kubernetes.Read(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		jobs = append(jobs, read...)
	}
	return jobs
}

func TestJobsAreValid(t *testing.T) {
	for i, job := range examples(t) {
		if errs := validate(t, job); len(errs) > 0 {
			t.Errorf("job %d, %s: %v", i, job.Name, errs)
		}
	}
}

// Each rule that the template has to obey is one that validation holds.
func TestBrokenJobsAreInvalid(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(*batchv1.Job)
	}{
		{"metadata.name", func(j *batchv1.Job) { j.Name = strings.Repeat("n", 64) }},
		{"spec.podFailurePolicy.rules[2]", func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = nil }},
		{"spec.podFailurePolicy.rules[1]", func(j *batchv1.Job) {
			name := "other"
			j.Spec.PodFailurePolicy.Rules[1].OnExitCodes.ContainerName = &name
		}},
		{"restartPolicy", func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = core.RestartPolicyOnFailure }},
		{"volumeMounts[0].name", func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].VolumeMounts[0].Name = "other" }},
		{"volumeMounts[1].mountPath", func(j *batchv1.Job) {
			mounts := j.Spec.Template.Spec.Containers[0].VolumeMounts
			mounts[1].MountPath = mounts[0].MountPath
		}},
		{"claimName", func(j *batchv1.Job) { j.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "" }},
	} {
		job := examples(t)[0]
		c.spoil(job)
		if errs := validate(t, job); !strings.Contains(fmt.Sprint(errs), c.field) {
			t.Errorf("%s: %v", c.field, errs)
		}
	}
}
