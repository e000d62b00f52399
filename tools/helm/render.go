// Package helm renders the charts in deploy/charts. Its tests hold them to what they promise: they render for every value, into
// objects that Kubernetes knows, with flags that the programs have.
package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Render returns what helm template prints of the chart in a folder, for Kubernetes 1.36.3.
func Render(dir, release, namespace string, values map[string]any) (string, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return "", err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}
	if !chartutil.IsCompatibleRange(c.Metadata.KubeVersion, capabilities.KubeVersion.Version) {
		return "", fmt.Errorf("the chart is not for Kubernetes %s", capabilities.KubeVersion.Version)
	}
	merged, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, merged)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue // for people
		}
		fmt.Fprintf(&out, "---\n# %s\n%s\n", name, files[name])
	}
	return out.String(), nil
}
