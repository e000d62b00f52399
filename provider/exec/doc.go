// Package exec is the driver that runs a command for each verb: create, configure, drain,
// delete and observe. Machines of any kind can be driven by scripts.
//
// # A call
//
// The verb is the command's last argument. It reads a request, a JSON object, from its standard
// input (request.go), and finds the request's short values in its environment too, so that a
// shell needs no JSON parser. Its exit code says what became of the call: 0 is accepted,
// ExitOutOfStock and ExitPermanent say so, everything else is transient and tried again. Its
// standard output is a JSON object that may give a reason; the last line of its standard error
// is the reason where it does not.
//
// observe gets a request without a machine, and answers with one JSON object a line for each
// machine that exists (answer.go). Exit code 0 says that these are all.
//
// # The record
//
// A driver has no memory: what a machine is, its cluster, and the metadata of the shard are
// stored with the machine. A request has all of it in one text, the record, of letters, digits
// and "+/=" only. A command stores it and observe gives it back; nothing else in an answer
// identifies the machine. So an answer is never partly right.
//
// # Bounds
//
// A command that takes longer than its timeout, or writes more than it may, is killed. What is left of
// its process group is killed too, as it is after a command that has failed. When the provider is
// killed, the kernel kills the commands that it runs; what these started may live on, so a script
// takes a lock of the machine. At most as many commands run at the same time as the settings say.
package exec
