package kubee2e

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tonnage/tonnage/benches/buying"
	"github.com/tonnage/tonnage/operator/kubetest"
)

const (
	// traceStart is when the trace begins to be whole, seconds: of pods that were gone before, rows are missing.
	traceStart = 9964972
	wholeDay   = 24 * time.Hour
)

// dayPod is a pod of the trace, in the time of its day: it is there from the first moment until the second one.
type dayPod struct {
	name       string
	size       buying.Pod
	begin, end time.Duration
}

// dayTrace is what a day of the trace asks for.
type dayTrace struct {
	pods []dayPod // in the order in which they begin
	// left is how many pods are left out since they live too shortly, and kept the part of the day's core hours that the others have.
	left int
	kept float64
}

// dayOf reads a day of the trace, counted from where it is whole: cores and memory of pods that live so long at the least. Their GPUs are
// left out.
func dayOf(t *testing.T, day int, least time.Duration) *dayTrace {
	t.Helper()
	path := kubetest.Root("..", "shared", "data", "openb", "openb_pod_list_default.csv")
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("there is no trace at %s: the folder shared must lie beside the checkout", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	from := time.Duration(traceStart)*time.Second + time.Duration(day)*wholeDay
	out, all, kept := &dayTrace{}, 0.0, 0.0
	for _, row := range rows[1:] {
		number := func(name string) int64 {
			n, err := strconv.ParseInt(row[column[name]], 10, 64)
			if err != nil {
				t.Fatalf("%s: %s of %s: %v", path, name, row[column["name"]], err)
			}
			return n
		}
		begin, end := time.Duration(number("creation_time"))*time.Second-from, time.Duration(number("deletion_time"))*time.Second-from
		if begin >= wholeDay || end <= 0 {
			continue
		}
		p := dayPod{row[column["name"]], buying.Pod{number("cpu_milli"), number("memory_mib"), 0, 1}, max(0, begin), min(wholeDay, end)}
		hours := float64(p.size[dimCPU]) * (p.end - p.begin).Hours()
		all += hours
		if end-begin < least {
			out.left++
			continue
		}
		kept += hours
		out.pods = append(out.pods, p)
	}
	out.kept = kept / all
	slices.SortStableFunc(out.pods, func(a, b dayPod) int { return int(a.begin - b.begin) })
	return out
}

// at returns the pods that are there at a moment of the day.
func (d *dayTrace) at(now time.Duration) (pods []buying.Pod) {
	for i := range d.pods {
		if p := &d.pods[i]; p.begin <= now && now < p.end {
			pods = append(pods, p.size)
		}
	}
	return pods
}
