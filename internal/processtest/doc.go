// Package processtest starts the commands of the tonnage binary as processes of
// their own, for tests that look at them from outside.
//
// # Use
//
//	func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }
//
//	func TestShard(t *testing.T) {
//		shard := processtest.Start(t, "shard", "--listen="+freeport.Take(t), "--metrics-addr="+freeport.Take(t), …)
//		processtest.Eventually(t, 30*time.Second, "the shard is ready", func() bool { return shard.Get("/readyz") != "" })
//		shard.Kill()
//		shard.Start()
//	}
//
// # The binary
//
// The binary is built once for each test program, with the race detector if the
// test itself is built with it. TONNAGE_BINARY names a binary that is there, so that
// several test programs can share one. [Main] removes what was built.
//
// Every process ends with its test, or with the test program if that is killed.
// The end of a process's output is logged when its test has failed.
package processtest
