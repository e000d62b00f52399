// Package cloud is a driver whose machines are simulated: objects in a file, which take time
// to change, run out and are lost. It tries the provider and pools files without a cloud, and it is
// the smallest complete driver to read.
//
// The file is the cloud: it outlives the provider's process and the provider's own file. Objects
// change by the clock, whenever somebody looks.
package cloud
