package document_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tonnage/tonnage/internal/world/document"
)

// largeText draws a document with lists in the outermost object, some of whose items are long.
func largeText(rng *rand.Rand) string {
	var value func(depth int) string
	value = func(depth int) string {
		n := rng.IntN(4)
		if depth == 4 && rng.IntN(200) == 0 {
			n = 3000 // more than a slab has room for
		}
		var items []string
		switch k := rng.IntN(7); {
		case k < 3 && depth < 5:
			for i := range n {
				items = append(items, fmt.Sprintf(`"k%d": %s`, i, value(depth+2)))
			}
			return "{" + strings.Join(items, ", ") + "}"
		case k < 5 && depth < 5:
			for range n {
				items = append(items, value(depth+2))
			}
			return "[" + strings.Join(items, ",\n ") + "]"
		}
		return []string{"1", "-2.5", `"text"`, `"a \"quoted\" one"`, "true", "null"}[rng.IntN(6)]
	}
	var keys []string
	for i := range 1 + rng.IntN(5) {
		keys = append(keys, fmt.Sprintf(`"list%d": %s`, i, value(0)))
	}
	return "{" + strings.Join(keys, ",\n") + "}"
}

// dump reads a document as readers of worlds do: the lists of the outermost object item by item. A fault at an item says where that
// is in the text.
func dump(d *document.Document) string {
	r := document.Reader{Of: d}
	var out []byte
	r.Map(&d.Root, func(key string, n *document.Node) {
		out = append(append(out, key...), ' ')
		if n.Kind != document.List {
			out = append(document.AppendJSON(out, n), '\n')
			return
		}
		r.List(n, func(i int, n *document.Node) {
			out = append(document.AppendJSON(out, n), '\n')
			if i%3 == 1 {
				r.Fault("is the item %d", i)
			}
			if n.Kind == document.Object && len(n.Items) > 0 {
				r.FaultKey(n.Items[0].Key, "is the first")
			}
		})
	})
	faults, more := r.Faults()
	return fmt.Sprintf("%s%+v %d", out, faults, more)
}

// TestLargeDocumentsReadAlike: items that are not kept are read as those that are, and have the same faults at the same places.
func TestLargeDocumentsReadAlike(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	good, bad := 0, 0
	for range 500 {
		text := largeText(rng)
		if rng.IntN(4) == 0 { // break it
			at := rng.IntN(len(text))
			text = text[:at] + []string{"", "}", `"`, ",", "[", "\x01"}[rng.IntN(6)] + text[min(at+rng.IntN(3), len(text)):]
		}
		want, wantFault, err := document.Load(strings.NewReader(text))
		got, gotFault, errLarge := document.LoadLarge(strings.NewReader(text))
		if err != nil || errLarge != nil {
			t.Fatal(err, errLarge)
		}
		if wantFault != nil || gotFault != nil {
			if bad++; wantFault == nil || gotFault == nil || *wantFault != *gotFault {
				t.Fatalf("faults %v and %v of\n%.2000s", wantFault, gotFault, text)
			}
			continue
		}
		good++
		if a, b := dump(got), dump(want); a != b {
			t.Fatalf("read as\n%.2000s\nwant\n%.2000s", a, b)
		}
	}
	if good < 100 || bad < 20 {
		t.Errorf("%d good documents, %d bad ones", good, bad)
	}
}

// TestTextsThatAreCutOffAreRefused: a connection that breaks ends a text early, and what came until then may be a whole document.
func TestTextsThatAreCutOffAreRefused(t *testing.T) {
	for _, text := range []string{"now: 2026-01-01T00:00:00Z\nneeds: []\n", `{"a": [{"b": 1}]}`, strings.Repeat(" ", 200_000) + "{}", ""} {
		for _, load := range []func(io.Reader) (*document.Document, *document.Fault, error){document.Load, document.LoadLarge} {
			cut := io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF))
			if _, fault, err := load(cut); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%.40q, cut off: %v, fault %v", text, err, fault)
			}
			if _, fault, err := load(iotest.OneByteReader(strings.NewReader(text))); err != nil || (fault != nil) != (text == "") {
				t.Errorf("%.40q, byte by byte: %v, %v", text, err, fault)
			}
		}
	}
}

// TestLongTextsAreReadWhole: a text that is longer than what is read at a time.
func TestLongTextsAreReadWhole(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	d, fault, err := document.Load(strings.NewReader(`{"a": "` + long + `"}`))
	if err != nil || fault != nil || document.Find(&d.Root, "a").Text != long {
		t.Errorf("%v, %v", fault, err)
	}
}
