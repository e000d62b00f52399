// Command tonnage decides which machines serve which demand. Its commands are
// thin: they read flags and files, and print; what they do lies in packages.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], processStreams()))
}
