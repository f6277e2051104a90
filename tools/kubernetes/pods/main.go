// Command pods runs the pods of Jobs as processes on this machine, each in a mount namespace that
// holds nothing but the image and the volumes of the pod. It is no Kubernetes: it shows that the
// commands work with what the Jobs give them.
//
//	pods [-evict INDEX] FILE PROGRAM
//
// FILE has the Jobs, PROGRAM is the image: one static file. The claim of each volume is the
// directory that this machine has at the path where the volume is mounted. All Jobs start at the
// same time, as with "kubectl apply". The pod of index INDEX gets SIGTERM after a second, as at an
// eviction, and is then started again. It needs root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"

	"github.com/seed65876f4f/sealift/tools/kubernetes"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == inside {
		fmt.Fprintln(os.Stderr, "pods:", enter(os.Args[2:]))
		os.Exit(125)
	}
	evict := flag.Int("evict", -1, "the index of the pod that is evicted")
	flag.Parse()
	if err := run(flag.Arg(0), flag.Arg(1), *evict); err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
}

func run(file, program string, evict int) error {
	jobs, err := kubernetes.Read(file)
	if err != nil {
		return err
	}
	if root, err = os.MkdirTemp("", "pods"); err != nil {
		return err
	}
	defer os.Remove(root)
	var wg sync.WaitGroup
	failures := make([]error, len(jobs))
	for i, job := range jobs {
		wg.Go(func() { failures[i] = runJob(job, program, evict) })
	}
	wg.Wait()
	return errors.Join(failures...)
}

// runJob runs as many pods at once as the Job says.
func runJob(job *batch.Job, program string, evict int) error {
	if job.Spec.CompletionMode == nil {
		return runPod(job, program, -1, false)
	}
	indexes := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	for range *job.Spec.Parallelism {
		wg.Go(func() {
			for index := range indexes {
				if err := runPod(job, program, index, index == evict); err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	for index := range int(*job.Spec.Completions) {
		indexes <- index
	}
	close(indexes)
	wg.Wait()
	return errors.Join(failures...)
}

// root is an empty directory, on which each container mounts its own root.
var root string

// inside is the first argument of a process of pods that becomes a container.
const inside = "--inside"

// runPod runs the container of a pod. It is an error if it does not end with 0.
func runPod(job *batch.Job, program string, index int, evicted bool) error {
	pod := job.Spec.Template.Spec
	container := pod.Containers[0]
	args := []string{inside, root, program, container.Command[0]}
	for _, m := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == m.Name })
		kind := "claim"
		switch {
		case pod.Volumes[i].EmptyDir != nil:
			kind = "empty"
		case m.ReadOnly:
			kind = "read-only"
		}
		args = append(args, kind, m.MountPath)
	}
	args = append(args, "--")
	cmd := exec.Command("/proc/self/exe", append(args, container.Args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	if index >= 0 {
		cmd.Env = append(cmd.Env, "JOB_COMPLETION_INDEX="+strconv.Itoa(index))
	}
	security := pod.SecurityContext
	cmd.Env = append(cmd.Env, fmt.Sprintf("PODS_USER=%d", *security.RunAsUser), fmt.Sprintf("PODS_GROUP=%d", *security.RunAsGroup))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		return err
	}
	if evicted {
		time.Sleep(time.Second)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return fmt.Errorf("pod %d has ended before it was evicted: %w", index, err)
		}
	}
	err := cmd.Wait()
	if evicted {
		if cmd.ProcessState.ExitCode() != 143 {
			return fmt.Errorf("evicted pod %d of %s: %v", index, job.Name, cmd.ProcessState)
		}
		return runPod(job, program, index, false)
	}
	if err != nil {
		return fmt.Errorf("pod %d of %s: %w", index, job.Name, err)
	}
	return nil
}
