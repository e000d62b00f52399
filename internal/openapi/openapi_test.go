package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"go/ast"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tonnage/tonnage/internal/fleetview/viewtest"
	"github.com/tonnage/tonnage/internal/world"
	"github.com/tonnage/tonnage/web"
)

var update = flag.Bool("update", false, "write the description and the page anew")

// TestWhatIsWrittenIsWhatIsThere: the files follow from the types and the table of routes.
func TestWhatIsWrittenIsWhatIsThere(t *testing.T) {
	for path, want := range map[string][]byte{"../../web/openapi.json": document(t), "../../docs/reference/http.md": page(t)} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the source says (%v); run go test ./internal/openapi -update", path, err)
		}
	}
}

// fixture is a site about a fleet in contention.
type fixture struct {
	url     string
	names   map[string]bool // of queries
	machine string
	domain  string // key and value, as a query
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := viewtest.Contended(t, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	out := &fixture{names: map[string]bool{}}
	asked := f.View.Queries()
	for name := range asked {
		out.names[name] = true
	}
	server := httptest.NewServer(web.New(web.Config{
		Feed: f.Feed, Queries: asked, Retire: func(string) error { return nil },
		World: func(ctx context.Context, w io.Writer) error { return world.WriteShard(ctx, w, f.Shard.Inspect, nil) },
	}))
	t.Cleanup(server.Close)
	out.url = server.URL
	var preempted struct {
		Actions []struct{ Kind, Example string }
	}
	_, body := out.get(t, "get", "/api/v1/changes")
	if err := json.Unmarshal(body, &preempted); err != nil {
		t.Fatal(err)
	}
	for _, a := range preempted.Actions {
		if a.Kind == "Preempt" {
			out.machine = a.Example
		}
	}
	var domains struct {
		Key     string
		Domains []struct{ Value string }
	}
	_, body = out.get(t, "get", "/api/v1/domains")
	if err := json.Unmarshal(body, &domains); err != nil || len(domains.Domains) == 0 || out.machine == "" {
		t.Fatalf("the fleet of the test has no domain or no preemption: %v, %s", err, body)
	}
	out.domain = url.Values{"key": {domains.Key}, "value": {domains.Domains[0].Value}}.Encode()
	return out
}

// get asks a path. Of a stream it reads the first event.
func (f *fixture) get(t *testing.T, method, path string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), f.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		if _, err := body.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body.Bytes()
	}
	part := make([]byte, 4096)
	for !bytes.Contains(body.Bytes(), []byte("}\n\n")) {
		n, err := res.Body.Read(part)
		if body.Write(part[:n]); err != nil {
			t.Fatal(err)
		}
	}
	_, data, _ := bytes.Cut(body.Bytes(), []byte("data: "))
	data, _, _ = bytes.Cut(data, []byte("\n"))
	return res.StatusCode, data
}

// TestAnswersAreAsDescribed: every route is served, and every answer has the fields that are described and no others.
func TestAnswersAreAsDescribed(t *testing.T) {
	f := newFixture(t)
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema json.RawMessage }
			}
		}
		Components json.RawMessage
	}
	if err := json.Unmarshal(document(t), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range routes() {
		path := r.path
		if r.example != "" {
			path += "?" + strings.NewReplacer("{machine}", url.QueryEscape(f.machine), "{domain}", f.domain).Replace(r.example)
		}
		code, body := f.get(t, r.method, path)
		if code != http.StatusOK {
			t.Errorf("%s: %d: %s", path, code, body)
			continue
		}
		for kind, content := range doc.Paths[r.path][r.method].Responses["200"].Content {
			if kind == "text/plain" {
				continue
			}
			if err := holds(t, content.Schema, doc.Components, body); err != nil {
				t.Errorf("%s: %v in\n%.2000s", path, err, body)
			}
		}
	}
	// What a route does not take is refused with the code that is described.
	for path, want := range map[string]int{
		"/api/v1/needs?limit=x": badQuery, "/api/v1/need": badQuery, "/api/v1/need?name=none/0": notFound, "/api/v1/machine?id=none": notFound,
		"/api/v1/plan?number=99": notFound, "/api/v1/changes?from=2&to=1": badQuery, "/api/v1/domains?key=none": notFound, "/api/v1/nothing": notFound,
	} {
		if code, body := f.get(t, "get", path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, body)
		}
	}
}

// holds tells whether JSON keeps a schema of the document.
func holds(t *testing.T, schema, components json.RawMessage, body []byte) error {
	t.Helper()
	whole := []byte(`{"allOf":[` + string(schema) + `],"components":` + string(components) + `}`)
	whole = bytes.ReplaceAll(whole, []byte(`"#/components/schemas/`), []byte(`"#/$defs/`))
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(whole, &parts); err != nil {
		t.Fatal(err)
	}
	var inner struct{ Schemas json.RawMessage }
	if err := json.Unmarshal(parts["components"], &inner); err != nil {
		t.Fatal(err)
	}
	delete(parts, "components")
	parts["$defs"] = inner.Schemas
	text, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return resolved.Validate(value)
}

// TestASchemaCanBeBroken: what the test above calls is able to refuse.
func TestASchemaCanBeBroken(t *testing.T) {
	var doc struct{ Components json.RawMessage }
	if err := json.Unmarshal(document(t), &doc); err != nil {
		t.Fatal(err)
	}
	for body, good := range map[string]bool{
		`{"name":"cpu","value":1}`: true, `{"name":"cpu"}`: false, `{"name":"cpu","value":1,"more":1}`: false, `{"name":1,"value":1}`: false, `{"name":"cpu","value":null}`: false,
	} {
		if err := holds(t, json.RawMessage(`{"$ref":"#/components/schemas/Amount"}`), doc.Components, []byte(body)); (err == nil) != good {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestEveryRouteIsDescribed: those of the site and of fleetview are, and no others.
func TestEveryRouteIsDescribed(t *testing.T) {
	described := map[string]bool{}
	for _, r := range routes() {
		described[r.path] = true
	}
	f := newFixture(t)
	for name := range f.names {
		if !described[web.QueryPath+name] {
			t.Errorf("%s%s is not described", web.QueryPath, name)
		}
	}
	for _, q := range queries {
		if !f.names[q.id] {
			t.Errorf("%s is described, and nothing answers", q.id)
		}
	}
	source, err := os.ReadFile("../../web/site.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"(?:GET |POST )?(/api/v1/[a-z.]+)"`).FindAllStringSubmatch(string(source), -1) {
		if !described[m[1]] {
			t.Errorf("%s is served and not described", m[1])
		}
	}
}

// TestParametersAreThoseThatAreRead: of each query, those that its handler asks for.
func TestParametersAreThoseThatAreRead(t *testing.T) {
	reads, calls, handlers := map[string][]string{}, map[string][]string{}, map[string]string{}
	for _, file := range parse(t, "../fleetview") {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			look(fn, reads, calls)
			if fn.Name.Name == "Queries" {
				handlersOf(fn, handlers)
			}
		}
	}
	for _, q := range queries {
		have := map[string]bool{}
		follow(handlers[q.id], reads, calls, have, map[string]bool{})
		var names []string
		for name := range have {
			names = append(names, name)
		}
		slices.Sort(names)
		var want []string
		for _, p := range q.params {
			want = append(want, p.name)
		}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("%s reads %v, described are %v", q.id, names, want)
		}
	}
}

// look notes which values of a query a function reads, and which functions it calls.
func look(fn *ast.FuncDecl, reads, calls map[string][]string) {
	name := fn.Name.Name
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		passes := slices.ContainsFunc(call.Args, func(a ast.Expr) bool { id, ok := a.(*ast.Ident); return ok && id.Name == "q" })
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			if on, ok := f.X.(*ast.Ident); ok && on.Name == "q" && f.Sel.Name == "Get" {
				reads[name] = append(reads[name], literal(call.Args[0])...)
			} else if passes {
				calls[name] = append(calls[name], f.Sel.Name)
			}
		case *ast.Ident:
			if !passes {
				break
			}
			if len(call.Args) > 1 && len(literal(call.Args[1])) == 1 {
				reads[name] = append(reads[name], literal(call.Args[1])...)
			} else {
				calls[name] = append(calls[name], f.Name)
			}
		}
		return true
	})
}

func literal(e ast.Expr) []string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value)
		return []string{s}
	}
	return nil
}

// handlersOf reads which method answers which query.
func handlersOf(fn *ast.FuncDecl, handlers map[string]string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			if method, ok := kv.Value.(*ast.SelectorExpr); ok {
				handlers[literal(kv.Key)[0]] = method.Sel.Name
			}
		}
		return true
	})
}

func follow(name string, reads, calls map[string][]string, have, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, r := range reads[name] {
		have[r] = true
	}
	for _, c := range calls[name] {
		follow(c, reads, calls, have, seen)
	}
}
