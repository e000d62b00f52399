package kube

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An error of a call says what was refused, and whose credentials it was called with; it stays the error that it is.
func TestExplain(t *testing.T) {
	e := Secret(nil, "fleet", "blue-kubeconfig", "value")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no role"))
	for _, x := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{forbidden, `its API server does not allow this to the credentials of Secret fleet/blue-kubeconfig: nodes "n" is forbidden: no role`},
		{errors.New("refused"), "its API server, as Secret fleet/blue-kubeconfig names it, cannot be asked: refused"},
		{apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("it has changed")), `Operation cannot be fulfilled on nodes "n": it has changed`},
	} {
		err := e.Explain(x.err)
		if !errors.Is(err, x.err) {
			t.Errorf("%v is no %v", err, x.err)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != x.want {
			t.Errorf("%q, want %q", text, x.want)
		}
	}
}
