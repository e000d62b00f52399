// Package calls says what a provider is asked to do, as it is when the wire is left
// behind: the four calls that change a machine, their answers, how machines are listed,
// and the fence that keeps replaced processes out. The server turns messages into these
// types; a Backend, which stores the machines, answers in them.
package calls
