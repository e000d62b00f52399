//go:build !testclock

package operator_test

// soakTags are those that the operator's process is built with.
const soakTags = ""
