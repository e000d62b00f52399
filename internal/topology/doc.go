// Package topology knows which processors this process may use, how they hang
// together, and which of them its workers should go to.
//
// # Reading
//
// Everything comes from files below a root that is a parameter, so that tests
// can describe any machine:
//
//	sys/devices/system/cpu/online                       which CPUs run
//	sys/devices/system/cpu/cpuN/topology/…              sockets, cores, threads
//	sys/devices/system/node/{online,nodeN/…}            NUMA nodes: CPUs, memory, distances
//	proc/thread-self/status                             the mask: CPUs and nodes allowed
//	proc/self/{cgroup,mountinfo}, then cpuset.*, cpu.*  the cgroup's mask and quota (v1, v2)
//
// What is absent sets no limit: a kernel without NUMA has one node, a process
// outside all cgroups has no quota. What is there and makes no sense is an
// error that names the file.
//
// # Placing
//
// Workers go to distinct CPUs. The first threads of all cores are taken before the
// second thread of any, for two workers on one core share its caches and its load
// ports. Among those they are spread over the nodes evenly, in turn, so that every
// first n workers of a plan are spread as well, and use the memory channels of all
// sockets. Workers beyond the mask or the quota are left to the scheduler: two
// threads bound to one CPU would wait for each other.
//
// Each place names the node that the worker's memory should come from: its own,
// or the nearest one where its own has none.
package topology
