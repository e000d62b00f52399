package reference

import (
	"fmt"
	"io"
	"strings"

	"github.com/tonnage/tonnage/internal/world"
)

// titles name the kinds of files in their JSON Schemas.
var titles = map[string]string{
	"world": "A world: what decide, what-if, explain and up -f read",
	"run":   "A run: what simulate reads",
	"edits": "Changes of a world: what-if --edits",
	"batch": "Several questions about a world: what-if --batch",
}

// WriteSchema writes the JSON Schema of a kind of file.
func WriteSchema(out io.Writer, kind string) error {
	fields := world.Describe(kind)
	if fields == nil {
		return fmt.Errorf("no kind of file is named %q", kind)
	}
	return WriteJSONSchema(out, titles[kind], fields)
}

const head = `# World files

<!-- written by: tonnage schema all -o markdown -->

Every key of the files that ` + "`tonnage`" + ` reads, from the parser's own tables. [Files](docs/reference/files.md) says what files have in common and what outputs
hold. ` + "`tonnage schema`" + ` writes the same as JSON Schema, for editors; ` + "`tonnage init`" + ` writes a world with comments; ` + "`tonnage validate -f FILE`" + ` checks one.

A value of null counts as absent. JSON Schema does not know that, nor what concerns two keys; the parser does.
`

// WritePage writes the reference page of all kinds of files.
func WritePage(out io.Writer) error {
	var page strings.Builder
	page.WriteString(head)
	err := WriteMarkdown(&page, []Section{
		{"World", "The input of `decide`, `what-if`, `explain` and `up -f`. A small one is [world.yaml](docs/examples/world.yaml).", world.Describe("world")},
		{"Run", "The input of `simulate`. A small one is [run.yaml](docs/examples/run.yaml). The first cycle is 1.", world.Describe("run")},
		{"Edits", "What `what-if --edits` changes before it decides again ([how](docs/how-to/ask-what-if.md)).", world.Describe("edits")},
		{"Batch", "Several questions about one world: `what-if --batch`.", world.Describe("batch")},
	})
	if err == nil { // texts name pages from the root of the project; the page stands in docs/reference
		_, err = io.WriteString(out, strings.ReplaceAll(page.String(), "](docs/", "](../"))
	}
	return err
}
