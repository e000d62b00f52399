package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tonnage/tonnage/internal/world/document"
)

const formatYAML = "yaml"

// yamlBytesMax is how much JSON is turned into YAML; more would take too much memory at once.
const yamlBytesMax = document.YAMLBytesMax

// yamlSink is the output of a command. Once it is switched on, what is written is JSON and comes out as YAML,
// a document for each value, when it is closed.
type yamlSink struct {
	out io.Writer

	mu   sync.Mutex
	on   bool
	text bytes.Buffer
}

// File returns the file below, nil = it is none.
func (y *yamlSink) File() *os.File {
	f, _ := y.out.(*os.File)
	return f
}

// switchOn turns what is written from now on into YAML.
func (y *yamlSink) switchOn() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.on = true
}

func (y *yamlSink) Write(b []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case !y.on:
		return y.out.Write(b)
	case y.text.Len()+len(b) > yamlBytesMax:
		return 0, fmt.Errorf("the output is longer than %d MiB, the limit of YAML; use -o json", yamlBytesMax>>20)
	}
	return y.text.Write(b)
}

// Close writes the YAML.
func (y *yamlSink) Close() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	values := json.NewDecoder(&y.text)
	for i := 0; ; i++ {
		var value json.RawMessage
		if err := values.Decode(&value); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		d, fault := document.ParseDocument(wrapped(value))
		if fault != nil {
			return fault
		}
		if i > 0 {
			if _, err := io.WriteString(y.out, "---\n"); err != nil {
				return err
			}
		}
		if err := document.WriteYAML(y.out, &d.Root.Items[0]); err != nil {
			return err
		}
	}
}

// wrapped puts a value into a list, since a document is an object or a list.
func wrapped(value json.RawMessage) []byte { return append(append([]byte{'['}, value...), ']') }
