package processtest

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	getMax      = 5 * time.Second
	getBytesMax = 64 << 20
)

// Get reads a page of the process's HTTP endpoints; "" when it does not answer
// with status 200 within 5 s.
func (p *Process) Get(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), getMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+path, nil)
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, getBytesMax))
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// Metric sums the series of a metric whose labels contain all of has.
func (p *Process) Metric(name string, has ...string) float64 {
	sum := 0.0
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(\{[^}]*\})? (\S+)$`)
next:
	for _, m := range line.FindAllStringSubmatch(p.Get("/metrics"), -1) {
		for _, h := range has {
			if !strings.Contains(m[1], h) {
				continue next
			}
		}
		v, _ := strconv.ParseFloat(m[2], 64)
		sum += v
	}
	return sum
}
