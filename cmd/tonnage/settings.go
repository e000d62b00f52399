package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tonnage/tonnage/internal/inbound"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/world/document"
)

// readSettings sets the flags that a file names and the command line does not.
// The error lists every fault of the file.
func readSettings(cmd *cobra.Command, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return badInput(fmt.Errorf("--config: %w", err))
	}
	defer f.Close()
	doc, fault, err := document.Load(f)
	if err != nil {
		return badInput(fmt.Errorf("--config: %w", err))
	}
	if fault == nil && doc.Root.Kind != document.Object {
		fault = &document.Fault{Path: "$", Msg: "must be an object: names of flags and their values"}
	}
	if fault != nil {
		return badInput(fmt.Errorf("--config %s: %w", path, fault))
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	var faults []error
	seen := map[string]bool{}
	for i := range doc.Root.Items {
		item := &doc.Root.Items[i]
		if seen[item.Key] {
			faults = append(faults, fmt.Errorf("--config %s: %s: occurs twice", path, item.Key))
			continue
		}
		seen[item.Key] = true
		if err := setFlag(cmd, item, names); err != nil {
			faults = append(faults, fmt.Errorf("--config %s: %s: %w", path, item.Key, err))
		}
	}
	if len(faults) > 0 {
		return badInput(errors.Join(faults...))
	}
	return nil
}

// setFlag sets one flag as a file says, unless the command line has.
func setFlag(cmd *cobra.Command, item *document.Node, names []string) error {
	flag := cmd.Flags().Lookup(item.Key)
	switch {
	case flag == nil || item.Key == "config" || item.Key == "help":
		if near := document.Nearest(item.Key, names); near != "" {
			return fmt.Errorf("no such setting; did you mean %s?", near)
		}
		return fmt.Errorf("no such setting (see `%s --help`)", cmd.CommandPath())
	case item.Kind == document.List || item.Kind == document.Object:
		return fmt.Errorf("must be one value, it is %s", item.Kind)
	case flag.Changed:
		return nil
	}
	if err := cmd.Flags().Set(item.Key, item.Text); err != nil {
		_ = flag.Value.Set(flag.DefValue) // what it is now would be a second fault
		return fmt.Errorf("%q is no %s", item.Text, flag.Value.Type())
	}
	return nil
}

// settingsOf lists all flags and their values, for the log.
func settingsOf(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && !flag.Hidden {
			fmt.Fprintf(&b, "%s=%s ", flag.Name, flag.Value)
		}
	})
	return strings.TrimSpace(b.String())
}

// inboundFlags registers the flags of what may arrive at a gRPC server.
func inboundFlags(cmd *cobra.Command, s *inbound.Settings) {
	flags := cmd.Flags()
	flags.IntVar(&s.ConnectionsPerAddress, "connections-per-address", inbound.ConnectionsPerAddressMax, "connections that one address may have; an IPv6 network of 64 bits is one address")
	flags.BoolVar(&s.Compressed, "accept-compressed", false, "accept messages compressed with gzip; what they inflate to is in no memory budget")
}

// tlsFlags adds the flags of mutual TLS to a command.
func tlsFlags(cmd *cobra.Command, files *mtls.Files) {
	tlsFlagsIn(cmd.Flags(), files)
	completeFiles(cmd, "tls-cert", "tls-key", "tls-ca")
}

// tlsFlagsIn adds the flags of mutual TLS to a set of flags.
func tlsFlagsIn(flags *pflag.FlagSet, files *mtls.Files) {
	flags.StringVar(&files.Cert, "tls-cert", "", "certificate to show, PEM; servers read it again when it changes")
	flags.StringVar(&files.Key, "tls-key", "", "key of the certificate, PEM; servers read it again when it changes")
	flags.StringVar(&files.CA, "tls-ca", "", "certificates of the authority that peers must come from, PEM; servers read them again when they change")
	flags.StringVar(&files.Deny, "tls-deny", "", "serial numbers of certificates that are refused, one hexadecimal number a line, # begins a comment; servers read it again when it changes")
}

// privateFlags adds the flags of a connection that has a CA of its own, with
// names that begin as files says.
func privateFlags(cmd *cobra.Command, files *mtls.Files, use, ca string) {
	flags := cmd.Flags()
	names := [...]string{files.Flags + "-cert", files.Flags + "-key", files.Flags + "-ca"}
	flags.StringVar(&files.Cert, names[0], "", "certificate for "+use+", PEM; read again when it changes")
	flags.StringVar(&files.Key, names[1], "", "key of the certificate, PEM; read again when it changes")
	flags.StringVar(&files.CA, names[2], "", "certificates of the authority of "+ca+", PEM")
	completeFiles(cmd, names[:]...)
}

func completeFiles(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.MarkFlagFilename(name, "pem", "crt", "key")
	}
}
