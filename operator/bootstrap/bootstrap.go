// Package bootstrap renders what a machine needs to join the cluster: the user
// data that the provider hands to it.
package bootstrap

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"text/template"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

const (
	// BytesMax is how long user data may be. No provider takes as much.
	BytesMax = 1 << 20
	// stubTTLSeconds is how long the user data are good for when there is no template.
	stubTTLSeconds = 600
)

// Values are what a template can speak of.
type Values struct {
	ClusterID    string
	Requirements []Requirement // what the machine is wanted for
}

// Requirement is one condition, with the operator as Kubernetes spells it.
type Requirement struct {
	Key      string
	Operator string // In, NotIn, Exists, DoesNotExist or Same
	Values   []string
}

var operators = map[bigfleet.NodeSelectorRequirement_Operator]string{
	bigfleet.NodeSelectorRequirement_OPERATOR_IN:             "In",
	bigfleet.NodeSelectorRequirement_OPERATOR_NOT_IN:         "NotIn",
	bigfleet.NodeSelectorRequirement_OPERATOR_EXISTS:         "Exists",
	bigfleet.NodeSelectorRequirement_OPERATOR_DOES_NOT_EXIST: "DoesNotExist",
	bigfleet.NodeSelectorRequirement_OPERATOR_SAME:           "Same",
}

// Renderer answers requests for user data. It may be used concurrently.
type Renderer struct {
	clusterID string
	template  *template.Template // nil: there is none
}

// New returns a renderer of a Go text/template; without text it renders a stub
// that joins nothing.
func New(clusterID, text string) (*Renderer, error) {
	r := &Renderer{clusterID: clusterID}
	if text == "" {
		return r, nil
	}
	t, err := template.New("bootstrap").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("bootstrap template: %w", err)
	}
	r.template = t
	return r, nil
}

// Render answers a request. What goes wrong is said in the answer.
func (r *Renderer) Render(request *bigfleet.BootstrapRequest) *bigfleet.BootstrapBlobResponse {
	out := &bigfleet.BootstrapBlobResponse{RequestId: request.RequestId}
	switch {
	case request.ClusterId != "" && request.ClusterId != r.clusterID:
		out.Error = fmt.Sprintf("this is cluster %q, asked was for %q", r.clusterID, request.ClusterId)
		return out
	case r.template == nil:
		out.UserData = fmt.Appendf(nil, "#cloud-config\n# cluster %s: no bootstrap template is configured\n", r.clusterID)
		out.TtlSeconds = stubTTLSeconds
		return out
	}
	values := Values{ClusterID: r.clusterID}
	for _, q := range request.Requirements {
		values.Requirements = append(values.Requirements, Requirement{q.Key, operators[q.Operator], slices.Clone(q.Values)})
	}
	var b bounded
	if err := r.template.Execute(&b, values); err != nil {
		out.Error = fmt.Sprintf("bootstrap template: %v", err)
		return out
	}
	out.UserData = b.Bytes()
	return out
}

// bounded is a buffer that takes no more than BytesMax.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > BytesMax {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

var errTooLong = errors.New("the user data would be longer than 1 MiB")
