// Package cloud is a driver whose machines are simulated: objects in a file, which take time to
// change, run out and are lost. It serves to try the provider and pools files without a cloud, and
// as the smallest complete example of a driver. Each verb is one write; package rack is an example of several.
//
// The file is the cloud: it outlives the provider's process and the provider's own file. The
// state of objects is computed from the clock at each access.
package cloud
