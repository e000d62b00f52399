// Package docs holds the pages about Tonnage, and a test that holds them to the
// product: links lead somewhere, and what a page says a command prints is what
// it prints.
package docs
