package topology

import (
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	cgroup2   = "0::/kubepods/pod7/shard\n"
	cgroup2At = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev - cgroup2 cgroup2 rw,nsdelegate\n"
	cgroup1   = "5:cpu,cpuacct:/kubepods/pod7\n3:cpuset:/kubepods/pod7\n1:name=systemd:/\n"
	cgroup1At = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 31 0:31 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n"
)

func TestReadAndPlace(t *testing.T) {
	for _, c := range []struct {
		says    string
		machine machine
		want    string
		workers int
		places  string
	}{
		{says: "one socket", machine: machine{sockets: 1, cores: 4, threads: 1},
			want: "node0: 0 1 2 3", workers: 5, places: "0 1 2 3 free"},
		{says: "one socket, two threads a core", machine: machine{sockets: 1, cores: 2, threads: 2},
			want: "node0: 0 1 2+0 3+1", workers: 4, places: "0 1 2 3"},
		{says: "2 × 2", machine: machine{sockets: 2, cores: 2, threads: 1},
			want: "node0: 0 1; node1: 2 3", workers: 4, places: "0@0 2@1 1@0 3@1"},
		{says: "2 × 2, fewer workers", machine: machine{sockets: 2, cores: 2, threads: 1},
			want: "node0: 0 1; node1: 2 3", workers: 2, places: "0@0 2@1"},
		{says: "CPUs that are offline", machine: machine{sockets: 2, cores: 4, threads: 1, offline: []int{1, 4, 5, 6}},
			want: "node0: 0 2 3; node1: 7", workers: 4, places: "0@0 7@1 2@0 3@0"},
		{says: "a first thread that is offline", machine: machine{sockets: 1, cores: 2, threads: 2, offline: []int{1}},
			want: "node0: 0 2+0 3", workers: 3, places: "0 3 2"},
		{says: "cores before siblings, though one node has more workers then",
			machine: machine{sockets: 2, cores: 3, threads: 2, offline: []int{4, 5, 10, 11}},
			want:    "node0: 0 1 2 6+0 7+1 8+2; node1: 3 9+3", workers: 6, places: "0@0 3@1 1@0 2@0 9@1 6@0"},
		{says: "a node without memory", machine: machine{sockets: 3, cores: 1, threads: 1, memoryless: []int{1}},
			want: "node0: 0; node1(no memory): 1; node2: 2", workers: 3, places: "0@0 1@0 2@2"},
		{says: "the nearest memory", machine: machine{sockets: 4, cores: 1, threads: 1, memoryless: []int{0, 1}},
			want: "node0(no memory): 0; node1(no memory): 1; node2: 2; node3: 3", workers: 4, places: "0@2 1@2 2@2 3@3"},
		{says: "memory on one node only: no choice", machine: machine{sockets: 2, cores: 1, threads: 1, memoryless: []int{1}},
			want: "node0: 0; node1(no memory): 1", workers: 2, places: "0 1"},
		{says: "a node without CPUs", machine: machine{sockets: 2, cores: 2, threads: 1, offline: []int{2, 3}},
			want: "node0: 0 1; node1:", workers: 3, places: "0@0 1@0 free"},
		{says: "the mask", machine: machine{sockets: 2, cores: 2, threads: 2, files: map[string]string{
			"proc/thread-self/status": "Name:\tx\nCpus_allowed:\tce\nCpus_allowed_list:\t1-3,6-7\nMems_allowed_list:\t0-1\n"}},
			want: "node0: 1; node1: 2 3 6+2 7+3", workers: 9, places: "1@0 2@1 3@1 6@1 7@1 free free free free"},
		{says: "a mask that leaves second threads", machine: machine{sockets: 1, cores: 2, threads: 2, files: map[string]string{
			"proc/thread-self/status": "Cpus_allowed_list:\t2-3\n"}},
			want: "node0: 2 3", workers: 2, places: "2 3"},
		{says: "memory of one node allowed", machine: machine{sockets: 2, cores: 1, threads: 1, files: map[string]string{
			"proc/thread-self/status": "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t1\n"}},
			want: "node0(no memory): 0; node1: 1", workers: 2, places: "0 1"},
		{says: "quota of version 2, the parent's being tighter", machine: machine{sockets: 1, cores: 8, threads: 1, files: map[string]string{
			"proc/self/cgroup": cgroup2, "proc/self/mountinfo": cgroup2At,
			"sys/fs/cgroup/kubepods/pod7/shard/cpu.max": "400000 100000\n",
			"sys/fs/cgroup/kubepods/pod7/cpu.max":       "250000 100000\n",
			"sys/fs/cgroup/kubepods/cpu.max":            "max 100000\n"}},
			want: "node0: 0 1 2 3 4 5 6 7; quota 2.5", workers: 4, places: "0 1 2 free"},
		{says: "no quota in version 2", machine: machine{sockets: 1, cores: 2, threads: 1, files: map[string]string{
			"proc/self/cgroup": cgroup2, "proc/self/mountinfo": cgroup2At,
			"sys/fs/cgroup/kubepods/pod7/shard/cpu.max": "max 100000\n"}},
			want: "node0: 0 1", workers: 2, places: "0 1"},
		{says: "cpuset of version 2", machine: machine{sockets: 2, cores: 2, threads: 1, files: map[string]string{
			"proc/self/cgroup": cgroup2, "proc/self/mountinfo": cgroup2At,
			"sys/fs/cgroup/kubepods/pod7/cpuset.cpus.effective": "1-2\n",
			"sys/fs/cgroup/cpuset.cpus.effective":               "0-3\n"}},
			want: "node0: 1; node1: 2", workers: 2, places: "1@0 2@1"},
		{says: "version 1: quota below one CPU, and cpuset", machine: machine{sockets: 1, cores: 8, threads: 1, files: map[string]string{
			"proc/self/cgroup": cgroup1, "proc/self/mountinfo": cgroup1At,
			"sys/fs/cgroup/cpu,cpuacct/kubepods/pod7/cpu.cfs_quota_us":  "50000\n",
			"sys/fs/cgroup/cpu,cpuacct/kubepods/pod7/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpuset/kubepods/pod7/cpuset.cpus":            "4-7\n"}},
			want: "node0: 4 5 6 7; quota 0.5", workers: 2, places: "4 free"},
		{says: "version 1 without a quota", machine: machine{sockets: 1, cores: 2, threads: 1, files: map[string]string{
			"proc/self/cgroup": cgroup1, "proc/self/mountinfo": cgroup1At,
			"sys/fs/cgroup/cpu,cpuacct/kubepods/pod7/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/kubepods/pod7/cpu.cfs_period_us": "100000\n"}},
			want: "node0: 0 1", workers: 1, places: "0"},
		{says: "in a container, whose mount begins at its own cgroup", machine: machine{sockets: 1, cores: 4, threads: 1, files: map[string]string{
			"proc/self/cgroup":      "0::/kubepods/pod7/shard\n",
			"proc/self/mountinfo":   "30 23 0:26 /kubepods/pod7/shard /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/cpu.max": "300000 100000\n"}},
			want: "node0: 0 1 2 3; quota 3", workers: 4, places: "0 1 2 free"},
		{says: "in a container that sees its host's names", machine: machine{sockets: 1, cores: 4, threads: 1, files: map[string]string{
			"proc/self/cgroup":      "0::/../pod8\n",
			"proc/self/mountinfo":   cgroup2At,
			"sys/fs/cgroup/cpu.max": "100000 100000\n"}},
			want: "node0: 0 1 2 3; quota 1", workers: 2, places: "0 free"},
		{says: "a kernel without NUMA, and nothing of cores", machine: machine{sockets: 1, cores: 2, threads: 1, files: map[string]string{
			nodeDir + "/online": "", nodeDir + "/node0/cpulist": "",
			cpuDir + "/cpu0/topology/thread_siblings_list": "", cpuDir + "/cpu1/topology/physical_package_id": "-1\n"}},
			want: "node0(no memory): 0 1", workers: 2, places: "0 1"},
	} {
		t.Run(c.says, func(t *testing.T) {
			got, err := Read(c.machine.tree())
			if err != nil {
				t.Fatal(err)
			}
			if text := describe(got); text != c.want {
				t.Errorf("read   %s\nwanted %s", text, c.want)
			}
			if text := describePlaces(got.Workers(c.workers)); text != c.places {
				t.Errorf("placed %s\nwanted %s", text, c.places)
			}
		})
	}
}

// TestLargeMachine: two sockets of 64 cores with two threads each.
func TestLargeMachine(t *testing.T) {
	m, err := Read(machine{sockets: 2, cores: 64, threads: 2}.tree())
	if err != nil {
		t.Fatal(err)
	}
	if m.Width() != 256 || len(m.Nodes) != 2 {
		t.Fatalf("%d CPUs on %d nodes", m.Width(), len(m.Nodes))
	}
	for n, want := range map[int]string{2: "0@0 64@1", 4: "0@0 64@1 1@0 65@1"} {
		if got := describePlaces(m.Workers(n)); got != want {
			t.Errorf("%d workers: %s, want %s", n, got, want)
		}
	}
	places := m.Workers(256)
	for i, p := range places {
		if second := p.CPU >= 128; second != (i >= 128) || p.Node != i%2 {
			t.Fatalf("worker %d goes to %v", i, p)
		}
	}
}

func TestWhatMakesNoSenseIsNamed(t *testing.T) {
	for says, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no CPUs":              {map[string]string{cpuDir + "/online": ""}, []string{"sys/devices/system/cpu/online"}},
		"CPUs in words":        {map[string]string{cpuDir + "/online": "zero"}, []string{"cpu/online", `"zero"`, "like 0-3,8"}},
		"all masked":           {map[string]string{"proc/thread-self/status": "Cpus_allowed_list: 64\n"}, []string{"no CPU", "proc/thread-self/status"}},
		"a mask in words":      {map[string]string{"proc/thread-self/status": "Cpus_allowed_list: x\n"}, []string{"proc/thread-self/status: Cpus_allowed_list"}},
		"memory in words":      {map[string]string{nodeDir + "/node0/meminfo": "Node 0 MemTotal: much kB\n"}, []string{"node0/meminfo", `"much"`}},
		"no memory line":       {map[string]string{nodeDir + "/node0/meminfo": "Node 0 MemFree: 1 kB\n"}, []string{"node0/meminfo", "MemTotal"}},
		"nodes in words":       {map[string]string{nodeDir + "/online": "0-"}, []string{"node/online"}},
		"a node's CPUs":        {map[string]string{nodeDir + "/node0/cpulist": "3-1"}, []string{"node0/cpulist"}},
		"a quota in words":     {map[string]string{"proc/self/cgroup": cgroup2, "proc/self/mountinfo": cgroup2At, "sys/fs/cgroup/cpu.max": "much 100000"}, []string{"sys/fs/cgroup/cpu.max", `"much 100000"`}},
		"a quota of nothing":   {map[string]string{"proc/self/cgroup": cgroup2, "proc/self/mountinfo": cgroup2At, "sys/fs/cgroup/cpu.max": "0 0"}, []string{"sys/fs/cgroup/cpu.max"}},
		"a cpuset in words":    {map[string]string{"proc/self/cgroup": cgroup2, "proc/self/mountinfo": cgroup2At, "sys/fs/cgroup/cpuset.cpus.effective": "all"}, []string{"sys/fs/cgroup/cpuset.cpus.effective"}},
		"numbers without end":  {map[string]string{cpuDir + "/online": "0-4000000000"}, []string{"cpu/online", "0 to 8191"}},
		"the same a 1000 fold": {map[string]string{cpuDir + "/online": strings.Repeat("0-8191,", 1000) + "1"}, []string{"cpu/online", "more than once"}},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := Read(machine{sockets: 2, cores: 1, threads: 1, files: c.files}.tree())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
	if _, err := Read(fstest.MapFS{}); err == nil {
		t.Error("an empty tree is no machine")
	}
	if _, err := Read(unreadable{}); err == nil {
		t.Error("an unreadable tree is no machine")
	}
}

type unreadable struct{}

func (unreadable) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestNobodyKnowsTheMachine(t *testing.T) {
	var none *Topology
	if got := describePlaces(none.Workers(3)); got != "free free free" {
		t.Errorf("placed %s", got)
	}
	if got := none.Workers(-1); len(got) != 0 {
		t.Errorf("%d places for -1 workers", len(got))
	}
}

// TestHost holds what the files say to what the runtime was told.
func TestHost(t *testing.T) {
	m, err := Host()
	if runtime.GOOS != "linux" {
		if err == nil {
			t.Error("no error on a system without these files")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(describe(m))
	if len(m.CPUs) != runtime.NumCPU() {
		t.Errorf("%d CPUs, the runtime counts %d", len(m.CPUs), runtime.NumCPU())
	}
	places := m.Workers(m.Width() + 1)
	slices.SortFunc(places, func(a, b Place) int { return a.CPU - b.CPU })
	if len(slices.CompactFunc(places, func(a, b Place) bool { return a.CPU == b.CPU })) != m.Width()+1 {
		t.Errorf("two workers share a CPU: %s", describePlaces(places))
	}
}
