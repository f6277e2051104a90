// Package kubernetes judges the Jobs that "sealift plan --script kubernetes" prints with the code
// of Kubernetes. It is a module of its own, so that the program does not depend on that.
package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	batch "k8s.io/api/batch/v1"
	strict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Read decodes the Jobs in a file as an API server does with strict validation: an unknown or
// repeated field is an error, and so is one in another case.
func Read(file string) (jobs []*batch.Job, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		document, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		job := &batch.Job{}
		unknown, err := strict.UnmarshalStrict(document, job)
		if err := errors.Join(append(unknown, err)...); err != nil {
			return nil, err
		}
		if job.APIVersion != "batch/v1" || job.Kind != "Job" {
			return nil, fmt.Errorf("it is %s of %s", job.Kind, job.APIVersion)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// Examples returns the files with Jobs that the program prints.
func Examples() ([]string, error) {
	files, err := filepath.Glob("../../../internal/submit/testdata/*.yaml")
	if err == nil && files == nil {
		err = errors.New("there are no examples")
	}
	return files, err
}
