package operator_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/kubetest"
)

type fields = map[string]any

// hostile is a sort of object that a user of the cluster may write. reason is that of the
// condition which it gets, "" = it is reported, or left out beside others of its sort.
type hostile struct {
	name   string
	few    bool // some of them do: each is large, or says the same
	reason string
	spec   func(i int) fields
}

func spec(cpu any, more fields) fields {
	s := fields{"priority": int64(0), "resources": fields{"cpu": cpu}}
	for k, v := range more {
		s[k] = v
	}
	return s
}

func quantity(cpu string) func(int) fields { return func(int) fields { return spec(cpu, nil) } }

func texts(n int, form string) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = fmt.Sprintf(form, i)
	}
	return out
}

// hostiles are all sorts.
var hostiles = []hostile{
	{"fraction in the exponent", true, "Unreadable", quantity("1e1.5")},
	{"exponent that takes for ever to read", true, "Unreadable", quantity("1e-2147483648")},
	{"exponent that takes for ever to compare", true, "Unreadable", quantity("1e2147483647")},
	{"exponent beyond 64 bits", true, "Unreadable", quantity("1e99999999999999999999")},
	{"quantity of 100,000 digits", true, "Unreadable", quantity(strings.Repeat("9", 100_000))},
	{"penalty that cannot be read", true, "Unreadable", func(int) fields { return spec("1", fields{"reclamationPenalty": "2e-1.5"}) }},
	{"1e30 cores", true, "Quantity", quantity("1e30")},
	{"all of 64 bits and more", true, "Quantity", quantity("9223372036854775807Ei")},
	{"2⁶²", true, "Quantity", func(int) fields { return spec(int64(1)<<62, nil) }},
	{"control characters in a key", true, "Name", func(int) fields {
		return spec("1", fields{"requirements": []any{fields{"key": "a\x1b\u202e\x00", "operator": "Exists"}}})
	}},
	{"control characters in a resource", true, "Name", func(int) fields {
		return fields{"priority": int64(0), "resources": fields{"a\x07\u202e\x00": "1"}}
	}},
	{"no name of a resource", true, "Name", func(int) fields { return fields{"priority": int64(0), "resources": fields{"": "1"}} }},
	{"name of a resource of 100,000 bytes", true, "Name", func(int) fields {
		return fields{"priority": int64(0), "resources": fields{strings.Repeat("z", 100_000): "1"}}
	}},
	{"an operator that nobody serves", true, "Operator", func(int) fields {
		return spec("1", fields{"requirements": []any{fields{"key": strings.Repeat("k\x01", 158), "operator": "Gt", "values": []any{"1"}}}})
	}},
	{"selector of a megabyte", true, "Unreadable", func(i int) fields {
		labels := fields{}
		for j := range 8000 {
			labels[fmt.Sprintf("%060d", j)] = fmt.Sprintf("%060d", i)
		}
		return spec("1", fields{"coLocation": fields{"topologyKey": "rack", "labelSelector": fields{"matchLabels": labels}}})
	}},
	{"requirements of a megabyte", true, "Unreadable", func(int) fields {
		var all []any
		for j := range 60 {
			all = append(all, fields{"key": fmt.Sprint("k", j), "operator": "In", "values": texts(70, "%0256d")})
		}
		return spec("1", fields{"requirements": all})
	}},
	{"longest keys and values", false, "", func(i int) fields {
		return spec("1", fields{"requirements": []any{fields{"key": fmt.Sprintf("%0317d", i%7), "operator": "NotIn", "values": texts(100, "%0256d")}}})
	}},
	{"next to nothing", true, "", func(int) fields { return spec("0.0000001", fields{"priority": int64(1)}) }},
	{"5000 cores, as the others", true, "", func(i int) fields { return spec(int64(5000+i), nil) }},
	{"a resource that nobody has, as the others", true, "", func(i int) fields {
		return fields{"priority": int64(0), "resources": fields{"cpu": "1", "typo": int64(i + 1)}}
	}},
	{"highest priorities", false, "", func(i int) fields { return spec("1", fields{"priority": int64(1<<31 - 1 - i)}) }},
	{"lowest priorities", false, "", func(i int) fields { return spec("1", fields{"priority": int64(i - 1<<31)}) }},
	{"groups", false, "", func(i int) fields {
		return spec("1", fields{"coLocation": fields{"topologyKey": "rack", "labelSelector": fields{"matchLabels": fields{"i": fmt.Sprint(i)}}}})
	}},
	{"sets of requirements", false, "", func(i int) fields {
		return spec("1", fields{"requirements": []any{fields{"key": "zone", "operator": "NotIn", "values": []any{fmt.Sprint(i)}}}})
	}},
	{"keys", false, "", func(i int) fields {
		return spec("1", fields{"requirements": []any{fields{"key": fmt.Sprint("key-", i), "operator": "Exists"}}})
	}},
	{"64 keys in one", true, "", func(i int) fields {
		var all []any
		for j := range 64 {
			all = append(all, fields{"key": fmt.Sprint("k", i, "-", j), "operator": "Exists"})
		}
		return spec("1", fields{"requirements": all})
	}},
	{"24 names of resources each", false, "", func(i int) fields {
		resources := fields{}
		for j := range 24 {
			resources[fmt.Sprint("r", i, "-", j)] = "1"
		}
		return fields{"priority": int64(0), "resources": resources}
	}},
	{"skews", false, "", func(i int) fields {
		return spec("1", fields{"topologySpread": []any{fields{"topologyKey": "zone", "maxSkew": int64(1<<31 - 1 - i), "whenUnsatisfiable": "DoNotSchedule"}}})
	}},
}

// fewMax is how many objects there are of a sort of which some do.
const fewMax = 2

// object makes one of a sort.
func (h *hostile) object(namespace, name string, i int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields{"spec": h.spec(i)}}
	u.SetGroupVersionKind(api.SchemeGroupVersion.WithKind("CapacityRequest"))
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// namespaces makes namespaces, and empties them when the test ends.
func namespaces(t *testing.T, k *kubetest.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		must(t, client.IgnoreAlreadyExists(k.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	}
	t.Cleanup(func() {
		for _, name := range names {
			for _, one := range requestsIn(t, k, name) {
				if len(one.Finalizers) > 0 {
					_ = k.Client.Patch(context.Background(), one, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
				}
			}
			if err := k.Client.DeleteAllOf(context.Background(), &api.CapacityRequest{}, client.InNamespace(name)); err != nil {
				t.Error(err)
			}
		}
	})
}

// requestsIn returns the requests of a namespace.
func requestsIn(t *testing.T, k *kubetest.Cluster, namespace string) (out []*api.CapacityRequest) {
	t.Helper()
	var list api.CapacityRequestList
	for {
		if err := k.Client.List(context.Background(), &list, client.InNamespace(namespace), client.Limit(500), client.Continue(list.Continue)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			out = append(out, list.Items[i].DeepCopy())
		}
		if list.Continue == "" {
			return out
		}
	}
}

// write makes n objects of every sort, or a few, spread over namespaces, some at a time.
// The longest names are among them.
func writeHostiles(t *testing.T, k *kubetest.Cluster, n int, spaces ...string) (wrote int64) {
	t.Helper()
	type job struct {
		of *hostile
		i  int
	}
	work := make(chan job)
	var wg sync.WaitGroup
	var count atomic.Int64
	for range 8 {
		wg.Go(func() {
			for x := range work {
				name := fmt.Sprintf("%s-%d", strings.Trim(strings.Map(plainOnly, x.of.name), "-"), x.i)
				if x.i == 0 {
					name += "." + strings.Repeat("x", 252-len(name))
				}
				err := k.Client.Create(t.Context(), x.of.object(spaces[x.i%len(spaces)], name, x.i))
				if err != nil && !apierrors.IsAlreadyExists(err) {
					t.Errorf("%s: %v", x.of.name, err)
					continue
				}
				count.Add(1)
			}
		})
	}
	for s := range hostiles {
		of := n
		if hostiles[s].few {
			of = min(n, fewMax)
		}
		for i := range of {
			work <- job{&hostiles[s], i}
		}
	}
	close(work)
	wg.Wait()
	return count.Load()
}

func plainOnly(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}
