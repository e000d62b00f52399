package bigfleetv1alpha1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

// The files as they are compiled in must say what the protocol says, by name,
// number and type; comments and order within a file are ours.
func TestFilesSayWhatTheProtocolSays(t *testing.T) {
	want := sections(contract)
	for _, file := range files {
		t.Run(filepath.Base(file.Path()), func(t *testing.T) {
			if got := file.Package(); got != "bigfleet.v1alpha1" {
				t.Errorf("package %s, want bigfleet.v1alpha1", got)
			}
			if got := file.Syntax(); got != protoreflect.Proto3 {
				t.Errorf("syntax %v, want proto3", got)
			}
			got := sections(describe(file))
			for name, lines := range got {
				if slices.Compare(lines, want[name]) != 0 {
					t.Errorf("%s is\n  %s\nwant\n  %s", name, strings.Join(lines, "\n  "), strings.Join(want[name], "\n  "))
				}
				delete(want, name)
			}
		})
	}
	for name := range want {
		t.Errorf("no file has %s", name)
	}
}

// Peers generate from the same names: a file registered under another path, or
// with a Go package of its own written in it, would be another file.
func TestFilesLieWhereTheProtocolHasThem(t *testing.T) {
	var got []string
	for _, file := range files {
		got = append(got, file.Path())
		text, err := os.ReadFile(filepath.Base(file.Path()))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"go_package", "optional "} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s says %q", file.Path(), word)
			}
		}
	}
	want := []string{
		"bigfleet/v1alpha1/capacity.proto", "bigfleet/v1alpha1/coordinator.proto", "bigfleet/v1alpha1/provider.proto",
		"bigfleet/v1alpha1/shard.proto", "bigfleet/v1alpha1/shardread.proto",
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if found, err := filepath.Glob("*.proto"); err != nil || len(found) != len(want) {
		t.Errorf("%q lie here (%v), want %d files", found, err, len(want))
	}
}

var files = []protoreflect.FileDescriptor{
	pb.File_bigfleet_v1alpha1_capacity_proto,
	pb.File_bigfleet_v1alpha1_coordinator_proto,
	pb.File_bigfleet_v1alpha1_provider_proto,
	pb.File_bigfleet_v1alpha1_shard_proto,
	pb.File_bigfleet_v1alpha1_shardread_proto,
}

// sections splits a table into its lines by the heading above them. What
// stands in one line, separated by semicolons, counts as so many lines.
func sections(table string) map[string][]string {
	found := map[string][]string{}
	var heading string
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if first := line[0]; first < '0' || first > '9' {
			if word, _, _ := strings.Cut(line, " "); word == "service" || word == "message" || word == "enum" {
				heading = line
				found[heading] = nil
				continue
			}
		}
		for part := range strings.SplitSeq(line, ";") {
			if part = strings.TrimSpace(part); part != "" {
				found[heading] = append(found[heading], part)
			}
		}
	}
	return found
}

// describe writes a file's descriptor in the manner of the table.
func describe(file protoreflect.FileDescriptor) string {
	var out strings.Builder
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		fmt.Fprintf(&out, "service %s\n", service.Name())
		for j := range service.Methods().Len() {
			method := service.Methods().Get(j)
			fmt.Fprintf(&out, "%s %s%s -> %s%s\n", method.Name(), stream(method.IsStreamingClient()), method.Input().Name(),
				stream(method.IsStreamingServer()), method.Output().Name())
		}
	}
	describeEnums(&out, "", file.Enums())
	for i := range file.Messages().Len() {
		message := file.Messages().Get(i)
		describeEnums(&out, string(message.Name())+".", message.Enums())
		fmt.Fprintf(&out, "message %s\n", message.Name())
		describeFields(&out, message)
	}
	return out.String()
}

func stream(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func describeEnums(out *strings.Builder, within string, enums protoreflect.EnumDescriptors) {
	for i := range enums.Len() {
		fmt.Fprintf(out, "enum %s%s\n", within, enums.Get(i).Name())
		for j := range enums.Get(i).Values().Len() {
			value := enums.Get(i).Values().Get(j)
			fmt.Fprintf(out, "%d %s\n", value.Number(), value.Name())
		}
	}
}

func describeFields(out *strings.Builder, message protoreflect.MessageDescriptor) {
	var lines []string
	line := func(number protoreflect.FieldNumber, text string) {
		lines = append(lines, fmt.Sprintf("%3d %s", number, text))
	}
	for i := range message.ReservedRanges().Len() {
		reserved := message.ReservedRanges().Get(i)
		for number := reserved[0]; number < reserved[1]; number++ {
			line(number, "reserved")
		}
	}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		text := fmt.Sprintf("%s: %s", field.Name(), typeOf(field))
		if field.IsList() {
			text = fmt.Sprintf("%s: R %s", field.Name(), typeOf(field))
		}
		if field.IsMap() {
			text = fmt.Sprintf("%s: map<%s,%s>", field.Name(), typeOf(field.MapKey()), typeOf(field.MapValue()))
		}
		if of := field.ContainingOneof(); of != nil {
			text += " of " + string(of.Name())
		}
		line(field.Number(), text)
	}
	slices.Sort(lines)
	for _, text := range lines {
		fmt.Fprintln(out, strings.TrimSpace(text))
	}
}

// typeOf names a field's type, a nested one by what it is nested in.
func typeOf(field protoreflect.FieldDescriptor) string {
	var of protoreflect.FullName
	switch {
	case field.Message() != nil:
		of = field.Message().FullName()
	case field.Enum() != nil:
		of = field.Enum().FullName()
	default:
		return field.Kind().String()
	}
	return strings.TrimPrefix(string(of), "bigfleet.v1alpha1.")
}
