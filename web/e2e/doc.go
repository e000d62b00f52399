// Package e2e looks at the page in a real Chromium: the built binary serves it,
// figures must move, the console must stay silent, and nothing may scroll
// sideways on a phone. Everything here is in its tests.
package e2e
