// Package openapi describes the HTTP API of the page: web/openapi.json, which a process serves at
// /api/v1/openapi.json, and docs/reference/http.md.
//
// Both are written from one source: the table of routes here, and the Go types of the answers with their
// comments.
//
//	go test ./internal/openapi -update
//
// The tests compare what is written with the source, and hold a running site to it: every route is served, every
// parameter is read, and every answer has the fields that are described, and no others.
package openapi
