// Command template prints what helm template does of a chart, with the values that its standard input has as JSON:
//
//	template DIR RELEASE NAMESPACE < values.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/tonnage/tonnage/tools/helm"
)

func main() {
	log.SetOutput(io.Discard) // the loader tells of every link that it follows
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 4 {
		return errors.New("usage: template DIR RELEASE NAMESPACE < values.json")
	}
	var values map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		return err
	}
	text, err := helm.Render(os.Args[1], os.Args[2], os.Args[3], values)
	if err != nil {
		return err
	}
	_, err = fmt.Print(text)
	return err
}
