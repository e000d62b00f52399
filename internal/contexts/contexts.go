// Package contexts keeps the addresses of fleets, with what must be shown there, under names: the contexts of
// the command line. They lie in one YAML file:
//
//	current: lab
//	contexts:
//	  lab:
//	    shard: http://127.0.0.1:8080
//	  production:
//	    shard: https://shard-0.example.com:8781
//	    tls-cert: me.pem
//
// The keys of a context are names of flags, and its values are what the flags would be given. Files are
// found from the folder of the configuration.
package contexts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/disk"
	"github.com/tonnage/tonnage/internal/private"
	"github.com/tonnage/tonnage/internal/world/document"
)

// FileVariable is the environment variable that names the file.
const FileVariable = "TONNAGE_CONTEXTS"

// Limits of a file.
const (
	ContextsMax   = 256
	FileBytesMax  = 1 << 20
	ValueBytesMax = 4 << 10
)

// Setting is what a context may hold: a flag.
type Setting struct {
	Flag string
	// Address says that the flag is an address. A context that gives none has nothing to say to a command.
	Address bool
	// File says that the value names a file.
	File bool
	// Secret says that the value is to be shown to the context's own addresses only.
	Secret bool
}

// Settings are all that a context may hold, in the order in which they are listed.
var Settings = []Setting{
	{Flag: "shard", Address: true},
	{Flag: "shard-addr", Address: true},
	{Flag: "coordinator", Address: true},
	{Flag: "token-file", File: true, Secret: true},
	{Flag: "tls-cert", File: true, Secret: true},
	{Flag: "tls-key", File: true, Secret: true},
	{Flag: "tls-ca", File: true, Secret: true},
	{Flag: "tls-deny", File: true},
	{Flag: "output"},
}

func settingOf(flag string) *Setting {
	i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Flag == flag })
	if i < 0 {
		return nil
	}
	return &Settings[i]
}

// Context is one context: values by the names of flags.
type Context map[string]string

// Config is what the file holds.
type Config struct {
	// Path is the file; Current the context that counts where none is named, "" = none.
	Path     string
	Current  string
	Contexts map[string]Context
}

// Path returns where the file is: what the variable names, else in the user's folder of configurations.
func Path() (string, error) {
	if path := os.Getenv(FileVariable); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for contexts: %w; name a file with %s", err, FileVariable)
	}
	return filepath.Join(dir, "tonnage", "config.yaml"), nil
}

// Load reads a file. One that is not there has no contexts. The error has a line for each fault, with its place.
func Load(path string) (*Config, error) {
	c := &Config{Path: path, Contexts: map[string]Context{}}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	if info.Size() > FileBytesMax {
		return nil, fmt.Errorf("contexts: %s is longer than %d bytes", path, FileBytesMax)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	defer f.Close()
	d, fault, err := document.Load(f)
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	if fault != nil {
		return nil, errors.New(fault.In(path))
	}
	r := &document.Reader{Of: d}
	schema.Read(r, &d.Root, c)
	if c.Current != "" && !r.Failed() && c.Contexts[c.Current] == nil {
		r.FaultKey("current", "%s", c.unknown(c.Current))
	}
	faults, _ := r.Faults()
	var all []error
	for i := range faults {
		all = append(all, errors.New(faults[i].In(path)))
	}
	return c, errors.Join(all...)
}

var schema = document.NewSchema(
	document.Field[Config]{Key: "current", Read: func(r *document.Reader, n *document.Node, into *Config) { r.OptionalName(n, &into.Current) }},
	document.Field[Config]{Key: "contexts", Read: func(r *document.Reader, n *document.Node, into *Config) {
		r.Map(n, func(name string, n *document.Node) {
			if len(into.Contexts) >= ContextsMax {
				r.Fault("there are more than %d contexts", ContextsMax)
				return
			}
			into.Contexts[name] = readContext(r, n)
		})
	}},
)

func readContext(r *document.Reader, n *document.Node) Context {
	c := Context{}
	r.Map(n, func(flag string, n *document.Node) {
		var value string
		r.Text(n, &value)
		if err := Check(flag, value); err != nil {
			r.Fault("%v", err)
			return
		}
		c[flag] = value
	})
	return c
}

// Check refuses a setting that no context may have.
func Check(flag, value string) error {
	switch {
	case settingOf(flag) == nil:
		var names []string
		for _, s := range Settings {
			names = append(names, s.Flag)
		}
		if near := document.Nearest(flag, names); near != "" {
			return fmt.Errorf("a context has no %s; did you mean %s?", document.Quote(flag), near)
		}
		return fmt.Errorf("a context has no %s; it may have %s", document.Quote(flag), strings.Join(names, ", "))
	case len(value) > ValueBytesMax:
		return fmt.Errorf("%s is longer than %d bytes", flag, ValueBytesMax)
	}
	return nil
}

// Names lists the contexts.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

func (c *Config) unknown(name string) string {
	says := fmt.Sprintf("there is no context %s", document.Quote(name))
	if near := document.Nearest(name, c.Names()); near != "" {
		return says + "; did you mean " + near + "?"
	}
	if len(c.Contexts) == 0 {
		return says + "; `tonnage context set` makes one"
	}
	return says + "; there are " + strings.Join(c.Names(), ", ")
}

// Get returns a context; "" means the current one, nil = there is none.
func (c *Config) Get(name string) (Context, error) {
	if name == "" {
		name = c.Current
	}
	if name == "" {
		return nil, nil
	}
	if x := c.Contexts[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("%s (%s)", c.unknown(name), c.Path)
}

// Use makes a context the current one.
func (c *Config) Use(name string) error {
	if c.Contexts[name] == nil {
		return fmt.Errorf("%s (%s)", c.unknown(name), c.Path)
	}
	c.Current = name
	return nil
}

// Set changes settings of a context, which is made if it is not there. An empty value removes a setting.
// The first context becomes the current one.
func (c *Config) Set(name string, values Context) error {
	if err := model.CheckName(name); err != nil {
		return fmt.Errorf("the name of the context %w", err)
	}
	for flag, value := range values {
		if err := Check(flag, value); err != nil {
			return err
		}
	}
	x := c.Contexts[name]
	if x == nil {
		if len(c.Contexts) >= ContextsMax {
			return fmt.Errorf("there are %d contexts; more are not kept", ContextsMax)
		}
		x = Context{}
		c.Contexts[name] = x
		if len(c.Contexts) == 1 {
			c.Current = name
		}
	}
	for flag, value := range values {
		if x[flag] = value; value == "" {
			delete(x, flag)
		}
	}
	return nil
}

// Delete removes a context.
func (c *Config) Delete(name string) error {
	if c.Contexts[name] == nil {
		return fmt.Errorf("%s (%s)", c.unknown(name), c.Path)
	}
	delete(c.Contexts, name)
	if c.Current == name {
		c.Current = ""
	}
	return nil
}

// Value returns what a context gives for a flag, "" = nothing. Names of files are made absolute.
func (c *Config) Value(x Context, flag string) string {
	value := x[flag]
	if s := settingOf(flag); value != "" && s != nil && s.File && !filepath.IsAbs(value) {
		return filepath.Join(filepath.Dir(c.Path), value)
	}
	return value
}

// Save writes the file, for its owner only.
func (c *Config) Save() error {
	text, err := json.Marshal(struct {
		Current  string             `json:"current,omitempty"`
		Contexts map[string]Context `json:"contexts"`
	}{c.Current, c.Contexts})
	if err != nil {
		return err
	}
	d, fault := document.ParseDocument(text)
	if fault != nil {
		return fault
	}
	var out strings.Builder
	out.WriteString("# The contexts of tonnage; `tonnage context` changes them, and drops comments.\n")
	if err := document.WriteYAML(&out, &d.Root); err != nil {
		return err
	}
	if err := private.MkdirAll(filepath.Dir(c.Path)); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	if err := disk.Replace(disk.OS, c.Path, []byte(out.String())); err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}
