package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// object is a JSON object whose keys are written in order of the alphabet.
type object = map[string]any

// comments are what the source says of types and their fields: by package folder, type and field ("" = the type).
type comments map[string]string

// sources are the folders of the packages whose types are described.
var sources = map[string]string{
	"github.com/tonnage/tonnage/web":                "../../web",
	"github.com/tonnage/tonnage/internal/fleetview": "../fleetview",
}

// readComments reads the comments of all types of a package.
func readComments(t *testing.T) comments {
	t.Helper()
	out := comments{}
	for pkg, dir := range sources {
		for _, p := range parse(t, dir) {
			ast.Inspect(p, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if fields, ok := spec.Type.(*ast.StructType); ok {
					out.add(pkg+"."+spec.Name.Name, fields)
				}
				return true
			})
		}
	}
	return out
}

// parse reads the source of a package, without its tests.
func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(dir, err)
	}
	files := token.NewFileSet()
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parsed)
	}
	return out
}

func (c comments) add(name string, fields *ast.StructType) {
	for _, f := range fields.Fields.List {
		says := strings.TrimSpace(f.Doc.Text())
		if says == "" {
			says = strings.TrimSpace(f.Comment.Text())
		}
		for _, n := range f.Names {
			c[name+"."+n.Name] = strings.Join(strings.Fields(says), " ")
		}
	}
}

// generator writes schemas of types.
type generator struct {
	comments comments
	schemas  object
}

// schema returns the schema of a type; structs become components.
func (g *generator) schema(t reflect.Type) object {
	if t == reflect.TypeFor[json.RawMessage]() {
		return object{"description": "JSON of another page"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"oneOf": []any{g.schema(t.Elem()), object{"type": "null"}}}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "format": "int64", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.schema(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": g.schema(t.Elem())}
	case reflect.Array:
		return object{"type": "array", "items": g.schema(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Struct:
		return g.component(t)
	}
	panic(fmt.Sprintf("the API has no form for %v", t))
}

// component adds a struct to the components, and refers to it.
func (g *generator) component(t reflect.Type) object {
	name := nameOf(t)
	ref := object{"$ref": "#/components/schemas/" + name}
	if g.schemas[name] != nil {
		return ref
	}
	properties, required := object{}, []string{}
	g.schemas[name] = object{"type": "object", "properties": properties, "additionalProperties": false}
	g.fields(t, properties, &required)
	if len(required) > 0 {
		slices.Sort(required)
		g.schemas[name].(object)["required"] = required
	}
	return ref
}

func (g *generator) fields(t reflect.Type, properties object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			g.fields(f.Type, properties, required)
			continue
		case !f.IsExported() || tag == "-":
			continue
		case tag == "":
			tag = f.Name
		}
		s := g.schema(f.Type)
		if says := g.comments[t.PkgPath()+"."+t.Name()+"."+f.Name]; says != "" {
			s = withText(s, says)
		}
		properties[tag] = s
		if !strings.Contains(rest, "omitempty") && !strings.Contains(rest, "omitzero") {
			*required = append(*required, tag)
		}
	}
}

func withText(s object, says string) object {
	out := object{"description": says}
	for k, v := range s {
		out[k] = v
	}
	return out
}

// errorTexts say what a status means.
var errorTexts = map[int]string{
	badQuery: "a value of the query is missing or wrong", notFound: "what is asked about is not there, or not kept",
	conflict: "the machine cannot be retired", tooLarge: "the fleet is too large for this question here; the command has no such limit",
	busy: "somebody else is being answered; ask again after Retry-After", away: "there are too many streams, or the process is stopping",
	401: "a token is missing or wrong", 403: "this is not for whoever asks; the text says what would help",
}

// document writes the whole description.
func document(t *testing.T) []byte {
	t.Helper()
	g := &generator{comments: readComments(t), schemas: object{}}
	paths := object{}
	for _, r := range routes() {
		paths[r.path] = object{r.method: g.operation(&r)}
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Tonnage", "version": "v1",
			"description": "The page of `tonnage up` and `tonnage shard`, for programs. Times are Unix milliseconds, prices US dollars an hour, amounts the natural unit of their resource: thousandths of a core, bytes, counts. What is below /api/v1 gets fields; none is renamed, removed or given another meaning before /api/v2.",
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{}, object{"token": []any{}}, object{"certificate": []any{}}},
		"paths":    paths,
		"components": object{
			"schemas": g.schemas,
			"securitySchemes": object{
				"token":       object{"type": "http", "scheme": "bearer", "description": "The text of the file that --token-file of the process names. It may read and change."},
				"certificate": object{"type": "mutualTLS", "description": "With --tls-*: a certificate of an admin, or one that may only read."},
			},
		},
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (g *generator) operation(r *route) object {
	answers := object{"200": g.answer(r)}
	for _, code := range append([]int{401, 403}, r.errors...) {
		answers[strconv.Itoa(code)] = object{"description": errorTexts[code], "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	}
	out := object{"operationId": r.id, "summary": r.about, "responses": answers}
	if r.change {
		out["description"] = "A change: it needs the token or the certificate of an admin, from this machine too where the process has a token or TLS."
	}
	params := []any{}
	for _, p := range r.params {
		schema := object{"type": "string"}
		if p.whole {
			schema = object{"type": "integer", "format": "int64", "minimum": 0}
		}
		if p.words != nil {
			schema["enum"] = p.words
		}
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "required": p.required, "schema": schema})
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	return out
}

func (g *generator) answer(r *route) object {
	kind := r.kind
	if kind == "" {
		kind = "application/json"
	}
	says, schema := "the answer", object{"type": "string"}
	switch {
	case r.answer != nil:
		schema = g.schema(reflect.TypeOf(r.answer))
	case r.kept != "":
		says, schema = r.kept, object{"type": "object"}
	}
	return object{"description": says, "content": object{kind: object{"schema": schema}}}
}

// page writes the reference in Markdown.
func page(t *testing.T) []byte {
	t.Helper()
	var doc object
	if err := json.Unmarshal(document(t), &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, r := range routes() {
		fmt.Fprintf(&b, "\n### `%s %s`\n\n%s\n", strings.ToUpper(r.method), r.path, r.about)
		if len(r.params) > 0 {
			b.WriteString("\n| parameter | |\n|---|---|\n")
		}
		for _, p := range r.params {
			required := ""
			if p.required {
				required = "required: "
			}
			words := ""
			if p.words != nil {
				words = " (`" + strings.Join(p.words, "`, `") + "`)"
			}
			fmt.Fprintf(&b, "| `%s` | %s%s%s |\n", p.name, required, p.about, words)
		}
		switch {
		case r.answer != nil:
			g := &generator{comments: comments{}, schemas: object{}}
			fmt.Fprintf(&b, "\nAnswer: %s.\n", typeText(g.schema(reflect.TypeOf(r.answer))))
		case r.kept != "":
			fmt.Fprintf(&b, "\nAnswer: %s\n", r.kept)
		}
	}
	b.WriteString("\n## Types\n")
	schemas := doc["components"].(object)["schemas"].(object)
	for _, name := range sortedKeys(schemas) {
		s := schemas[name].(object)
		fmt.Fprintf(&b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", name)
		properties := s["properties"].(object)
		required, _ := s["required"].([]any)
		for _, field := range sortedKeys(properties) {
			p := properties[field].(object)
			says, _ := p["description"].(string)
			if !slices.Contains(required, any(field)) {
				says = strings.TrimSuffix("may be left out; "+says, "; ")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field, typeText(p), strings.ReplaceAll(says, "|", "\\|"))
		}
	}
	return []byte(b.String())
}

func sortedKeys(o object) []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// typeText writes a schema in a few words.
func typeText(s object) string {
	if ref, ok := s["$ref"].(string); ok {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	if either, ok := s["oneOf"].([]any); ok {
		return typeText(either[0].(object)) + " or null"
	}
	switch s["type"] {
	case "array":
		return "list of " + typeText(s["items"].(object))
	case "object":
		if of, ok := s["additionalProperties"].(object); ok {
			return "object of " + typeText(of)
		}
		return "object"
	case nil:
		return "any"
	}
	if s["contentEncoding"] != nil {
		return "base64"
	}
	return s["type"].(string)
}

// parent is where links of the page begin.
const parent = "../"

const pageHead = `# The HTTP API

The page of ` + "`tonnage up` and `tonnage shard`" + ` answers programs as well. [OpenAPI 3.1](../../web/openapi.json) describes all of it; a process
serves that description at ` + "`/api/v1/openapi.json`, and `tonnage schema openapi`" + ` writes it. This page is written from the same source
(` + "`go test ./internal/openapi -update`" + `). ` + "`tonnage fleet`" + ` asks the same questions on the command line.

* Times are Unix milliseconds, prices US dollars an hour, amounts the natural unit of their resource: thousandths of a core, bytes, counts.
* What is below ` + "`/api/v1`" + ` gets fields; none is renamed, removed or given another meaning. ` + "`/api/state`, `/api/world`, `/api/retire` and `/events`" + ` are names of
  earlier versions for the same answers.
* [Who may ask](` + parent + `operating` + ".md" + `#who-may-look-and-who-may-change-something): the process's own machine; from elsewhere the token (` + "`Authorization: Bearer TOKEN`" + `) or a certificate.
  Otherwise the answer is 401 or 403, and its text says what would help.
* An error is plain text: 400 says what is wrong with the query, 404 that something is not there or not kept, 429 that somebody else is being answered, 422 that
  the fleet is too large for this question here.

    curl -s 'http://127.0.0.1:8080/api/v1/clusters?limit=1'
    curl -s -H "Authorization: Bearer $TONNAGE_TOKEN" https://fleet.example.com/api/v1/needs

## Routes
`
