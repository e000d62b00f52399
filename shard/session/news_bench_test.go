package session_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/shard/session"
)

// BenchmarkNews is a thousand updates, to one operator, and to a thousand.
func BenchmarkNews(b *testing.B) {
	const news = 1000
	for _, operators := range []int{1, 200, news} {
		b.Run(fmt.Sprintf("operators=%d", operators), func(b *testing.B) {
			f := serve(b, session.Deps{})
			var l load
			l.connect(b, f, operators)
			until(b, "all sessions have begun", func() bool { return f.server.Count() == operators })
			cpu := cpuTime(b)
			for b.Loop() {
				l.news.Store(0)
				tell(f, news, operators)
				until(b, "all news has come", func() bool { return l.news.Load() == news })
			}
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
		})
	}
}
