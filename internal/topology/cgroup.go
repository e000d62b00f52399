package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// group is where the files of one controller lie for this process: its own
// folder, and the mount that is the highest folder to be seen.
type group struct {
	dir, mount string
	v2         bool
}

// groups returns the folders of a controller, none when the process is in no
// cgroup of it. A machine in transition has both versions mounted, with the
// controller in one of them; only the files tell which.
func groups(root fs.FS, controller string) []group {
	membership, err1 := fs.ReadFile(root, "proc/self/cgroup")
	mounts, err2 := fs.ReadFile(root, "proc/self/mountinfo")
	if err1 != nil || err2 != nil {
		return nil
	}
	var out []group
	for line := range strings.Lines(string(membership)) { // 1:cpu,cpuacct:/path, or 0::/path for version 2
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		v2 := f[0] == "0" && f[1] == ""
		if !v2 && !slices.Contains(strings.Split(f[1], ","), controller) {
			continue
		}
		if from, mount, found := mountOf(string(mounts), controller, v2); found {
			out = append(out, group{path.Join(mount, below(from, f[2])), mount, v2})
		}
	}
	return out
}

// mountOf finds where a controller is mounted, and which cgroup is the top of
// that mount. The folder has no slash in front, as fs.FS wants it.
func mountOf(mounts, controller string, v2 bool) (from, mount string, found bool) {
	for line := range strings.Lines(mounts) { // 36 35 0:33 /root /mount/point rw,… optional… - cgroup source rw,cpu
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		if v2 && r[0] == "cgroup2" || !v2 && r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), controller) {
			return l[3], strings.TrimPrefix(l[4], "/"), true
		}
	}
	return "", "", false
}

// below returns the way from the top of a mount to a cgroup. A cgroup outside
// of it (as a container sees its host's) leaves the top as the best answer.
func below(top, cgroup string) string {
	rest, inside := strings.CutPrefix(cgroup, strings.TrimSuffix(top, "/"))
	if !inside || rest != "" && rest[0] != '/' || strings.Contains(rest, "..") {
		return ""
	}
	return rest
}

// quota returns the tightest limit on processor time from the process's cgroup
// up to the top, in CPUs; 0 when there is none.
func quota(root fs.FS) (float64, error) {
	least := 0.0
	for _, g := range groups(root, "cpu") {
		for dir := g.dir; ; dir = path.Dir(dir) {
			q, err := quotaOf(root, dir, g.v2)
			if err != nil {
				return 0, err
			}
			if q > 0 && (least == 0 || q < least) {
				least = q
			}
			if dir == g.mount || dir == "." {
				break
			}
		}
	}
	return least, nil
}

// quotaOf reads the limit of one cgroup: cpu.max in version 2 ("max 100000" or
// "50000 100000"), two files in version 1, -1 being none.
func quotaOf(root fs.FS, dir string, v2 bool) (float64, error) {
	names := []string{"cpu.max"}
	if !v2 {
		names = []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	}
	var f []string
	for _, name := range names {
		text, err := fs.ReadFile(root, path.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("topology: %w", err)
		}
		f = append(f, strings.Fields(string(text))...)
	}
	if len(f) == 2 && (f[0] == "max" || f[0] == "-1") {
		return 0, nil
	}
	if len(f) == 2 {
		micros, err1 := strconv.ParseInt(f[0], 10, 64)
		period, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 == nil && err2 == nil && micros > 0 && period > 0 {
			return float64(micros) / float64(period), nil
		}
	}
	return 0, fmt.Errorf("topology: %s/%s: %q is no quota and period in microseconds", dir, names[0], strings.Join(f, " "))
}

// cpuset returns the CPUs that the cgroup allows, and whether it says so: the
// effective mask of the nearest folder that has one.
func cpuset(root fs.FS) (cpus []int, limited bool, err error) {
	for _, g := range groups(root, "cpuset") {
		names := []string{"cpuset.cpus.effective"}
		if !g.v2 {
			names = []string{"cpuset.effective_cpus", "cpuset.cpus"}
		}
		for dir := g.dir; ; dir = path.Dir(dir) {
			for _, name := range names {
				list, err := readList(root, path.Join(dir, name))
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, false, fmt.Errorf("topology: %w", err)
				}
				if len(list) > 0 {
					return list, true, nil
				}
			}
			if dir == g.mount || dir == "." {
				break
			}
		}
	}
	return nil, false, nil
}
