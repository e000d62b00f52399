// Package docs holds the pages about Tonnage, and a test that holds them to the
// product: links lead somewhere, what a page says a command prints is what it
// prints, and no file of the project cites a page that is not in it.
package docs
