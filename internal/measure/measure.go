// Package measure is what measurements of rota share: the time and memory that processes use, how
// long a disk takes to have what is written, medians and percentiles, and the name of the machine.
package measure

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"
)

// CPU is the CPU time that the processes have used so far, user and system.
func CPU(pids ...int32) (time.Duration, error) {
	var sum float64
	for _, pid := range pids {
		p, err := process.NewProcess(pid)
		if err != nil {
			return 0, err
		}
		times, err := p.Times()
		if err != nil {
			return 0, err
		}
		sum += times.User + times.System
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// RSS is the resident memory of a process in megabytes of a million bytes.
func RSS(pid int) (float64, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0, err
	}
	m, err := p.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return float64(m.RSS) / 1e6, nil
}

// SyncTimes appends a page to a file in folder n times and measures how long each takes to be on
// the disk; sorted.
func SyncTimes(folder string, n int) (took []time.Duration, err error) {
	file, err := os.CreateTemp(folder, ".rota-sync-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	page := make([]byte, 4096)
	for range n {
		start := time.Now()
		if _, err := file.Write(page); err != nil {
			return nil, err
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took, nil
}

// Median is the middle of some values, or the mean of the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Percentile is the p-th percentile (nearest rank) of sorted values; 0 of none.
func Percentile[T any](sorted []T, p int) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// Machine is the processor's name.
func Machine() string {
	if models, err := cpu.Info(); err == nil && len(models) > 0 && models[0].ModelName != "" {
		return strings.Join(strings.Fields(models[0].ModelName), " ")
	}
	return runtime.GOOS + "/" + runtime.GOARCH
}
