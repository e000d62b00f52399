package document

import "testing"

// TestFaultsSayWhere: keys where the key stands, values where the value does, and what is
// missing where its object begins.
func TestFaultsSayWhere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"name: a\nage: x\n", `f:2:6: age: must be a number, got the text "x"`},
		{"age: 3", "f:1:1: name: is missing"},
		{"\n\n  age: 3", "f:3:3: name: is missing"},
		{"name: a\nagee: 3\n", "f:2:1: agee: unknown key; did you mean age?"},
		{"name: a\nname: b\n", "f:2:1: name: the key occurs twice"},
		{"name: a\ntags:\n- x\n- 7\n", "f:4:3: tags[1]: must be text, got 7; put it in quotes"},
		{"name: ü\ntags: [ä, ö, 7]", "f:2:14: tags[2]: must be text, got 7; put it in quotes"},
		{"x: &a {age: y}\nname: a\n<<: *a\n", "f:1:1: x: unknown key; known are name, age, tags"},
		{"name: a\r\nage: x\r\n", `f:2:6: age: must be a number, got the text "x"`},
		{"{\"name\": \"a\",\n \"age\": \"x\"}", `f:2:9: age: must be a number, got the text "x"`},
		{"{\"name\": \"ü\", \"agee\": 1}", "f:1:15: agee: unknown key; did you mean age?"},
		{"{\"name\": \"a\",\n\n \"name\": \"b\"}", "f:3:2: name: the key occurs twice"},
		{"{\"name\": \"a\", \"tags\": [\"x\",\n7]}", "f:2:1: tags[1]: must be text, got 7; put it in quotes"},
		{"{\"name\": }", "f:1:10: a value cannot begin with '}'; a file that begins with { or [ is read as JSON"},
		{"name: a\n\tage: 3\n", "f:2: found a tab character that violates indentation"},
		{"name: a\n---\nname: b\n", "f:2: a second YAML document begins here; a file holds one"},
		{"name: !!binary x\n", `f:1:7: the tag "!!binary" has no meaning here`},
		{"", "f: $: the file is empty"},
	} {
		if got := firstFault(c.text); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// firstFault reads a pet and returns the first fault, in a file f.
func firstFault(text string) string {
	d, fault := ParseDocument([]byte(text))
	if fault != nil {
		return fault.In("f")
	}
	r := Reader{Of: d}
	var p pet
	petSchema.Read(&r, &d.Root, &p)
	faults, _ := r.Faults()
	if len(faults) == 0 {
		return ""
	}
	return faults[0].In("f")
}

// TestStepsBelow: what the model says of a profile is a path below a need.
func TestStepsBelow(t *testing.T) {
	d, _ := ParseDocument([]byte("a:\n- b: {c: 1}\n"))
	for below, line := range map[string]int{"a[0].b.c": 2, "a[0].b": 2, "a[9]": 2, "x": 1, "[3]": 1, "a[": 2, "a[x]": 2, "": 1, "..": 1} {
		r := Reader{Of: d}
		r.FaultAt(below, "bad")
		faults, _ := r.Faults()
		if faults[0].Line != line {
			t.Errorf("%q is on line %d, want %d", below, faults[0].Line, line)
		}
	}
}
