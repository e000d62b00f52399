package supply_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// told prints what a table or a copy says of each machine.
func told(order []columnar.Row, get func(columnar.Row) model.Machine) string {
	var b strings.Builder
	for _, r := range order {
		m := get(r)
		fmt.Fprintln(&b, r, m.Host, fmt.Sprintf("%+v", m))
	}
	return b.String()
}

// TestACopyStaysAsItWas, whatever happens to the table: it says of each machine what the table said when it was made.
func TestACopyStaysAsItWas(t *testing.T) {
	start := time.Now().UnixNano()
	for i := range seedsOf(30) {
		seed := (start + i) & 0xffffff
		s := newScript(seed)
		type sight struct {
			copied *supply.Copy
			want   string
			beside chan string // read while the table changed
		}
		var sights []sight
		for step := range 2000 {
			if err := s.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if r, m, ok := s.some(); ok && s.IntN(4) == 0 { // texts that come and go
				m = s.t.Get(r)
				m.Host, m.Labels = fmt.Sprint("host-", s.IntN(50), "-", strings.Repeat("x", s.IntN(400))), map[string]string{"k": fmt.Sprint(s.IntN(1000))}
				if m.State == model.Failed {
					m.LastError = fmt.Sprint("error ", s.IntN(9))
				}
				if err := s.t.Put(&m); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
				s.want[m.ID] = m
			}
			if step%200 == 0 {
				x := sight{s.t.Copy(), told(s.t.Order(), s.t.Get), make(chan string, 1)}
				go func() { x.beside <- told(x.copied.Order(), x.copied.Get) }()
				sights = append(sights, x)
			}
		}
		for at, x := range sights {
			for _, got := range []string{<-x.beside, told(x.copied.Order(), x.copied.Get)} {
				if got != x.want {
					t.Fatalf("seed %d, copy %d: %s", seed, at, firstDifference(got, x.want))
				}
			}
			for _, r := range x.copied.Order() {
				if m := x.copied.Get(r); m.Cluster != x.copied.Cluster(r) || m.Reservation != x.copied.Reservation(r) {
					t.Fatalf("seed %d, copy %d: row %d is in %q, reserved %+v, and %+v", seed, at, r, x.copied.Cluster(r), x.copied.Reservation(r), m)
				}
			}
		}
	}
}
