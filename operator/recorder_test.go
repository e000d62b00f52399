package operator_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/tonnage/tonnage/operator/kubetest"
)

// splitYAML returns the documents of a file.
func splitYAML(text []byte) [][]byte { return bytes.Split(text, []byte("\n---\n")) }

// access is one thing that a user did, as authorisation sees it.
type access struct{ verb, group, resource, name string }

// recorder notes what a user does, and what was forbidden.
type recorder struct {
	mu        sync.Mutex
	did       map[access]bool
	forbidden []string
}

// record makes a configuration's requests be noted.
func record(cfg *rest.Config) *recorder {
	r := &recorder{did: map[access]bool{}}
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(q *http.Request) (*http.Response, error) {
			info, err := resolver.NewRequestInfo(q)
			if err != nil || !info.IsResourceRequest {
				return next.RoundTrip(q)
			}
			a := access{info.Verb, info.APIGroup, info.Resource, info.Name}
			if info.Subresource != "" {
				a.resource += "/" + info.Subresource
			}
			r.note(a)
			if a.verb == "watch" {
				// Servers that do not send a list through a watch are asked for one first.
				a.verb = "list"
				r.note(a)
			}
			answer, err := next.RoundTrip(q)
			switch {
			case err != nil:
			case a.verb == "patch" && answer.StatusCode == http.StatusCreated:
				a.verb = "create" // an apply that makes something asks for both
				r.note(a)
			case answer.StatusCode == http.StatusForbidden:
				r.mu.Lock()
				r.forbidden = append(r.forbidden, fmt.Sprintf("%s %s", info.Verb, q.URL.Path))
				r.mu.Unlock()
			}
			return answer, err
		})
	})
	return r
}

func (r *recorder) note(a access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did[a] = true
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// allows tells whether rules allow something.
func allows(rules []rbacv1.PolicyRule, a access) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, a.verb) && slices.Contains(r.APIGroups, a.group) && slices.Contains(r.Resources, a.resource) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.name))
	})
}

// check holds rules to what was done: they allowed all of it, and without any one
// verb on any one resource they would not have.
func (r *recorder) check(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.forbidden {
		t.Errorf("the role is too small: forbidden was %s", f)
	}
	for _, less := range withoutOne(rules) {
		needed := false
		for a := range r.did {
			needed = needed || !allows(less.rules, a)
		}
		if !needed {
			t.Errorf("the role is too large: nothing fails without %s", less.what)
		}
	}
}

// tellTwice records an event and its repetition as a controller does: the first is created, the second is
// counted by a patch of the first.
func tellTwice(t *testing.T, k *kubetest.Cluster, m manager.Manager, controller string) {
	t.Helper()
	about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: controller}}
	recorder := m.GetEventRecorder(controller)
	for _, counted := range []bool{false, true} {
		recorder.Eventf(about, nil, corev1.EventTypeNormal, "Repeated", "Test", "as before")
		eventually(t, func() string {
			var events eventsv1.EventList
			must(t, k.Client.List(t.Context(), &events, client.InNamespace("default")))
			if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
				return e.Reason == "Repeated" && e.Regarding.Name == controller && (e.Series != nil || !counted)
			}) {
				return fmt.Sprintf("there is no event that repeats: %v", counted)
			}
			return ""
		})
	}
}

type lesser struct {
	what  string
	rules []rbacv1.PolicyRule
}

// withoutOne returns the rules less one verb on one resource, for each of them.
func withoutOne(rules []rbacv1.PolicyRule) []lesser {
	var single []rbacv1.PolicyRule
	for _, r := range rules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				one := r
				one.Resources, one.Verbs = []string{resource}, []string{verb}
				single = append(single, one)
			}
		}
	}
	out := make([]lesser, len(single))
	for i, one := range single {
		rest := slices.Delete(slices.Clone(single), i, i+1)
		out[i] = lesser{fmt.Sprintf("%s of %s", one.Verbs[0], one.Resources[0]), rest}
	}
	return out
}
