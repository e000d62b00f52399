package report

// recentMax is after how many roll-ups in a row a shard believes that a demand
// has all but vanished.
const recentMax = 3

// recent are the rows of the last roll-ups of the period, of whatever sessions. A
// shard holds a roll-up that keeps less than a tenth of the rows, and takes it
// when two more say the same. Early ones must not make that faster.
type recent struct {
	rows [recentMax]int
	n    int // roll-ups of the period so far
}

// admit tells whether a roll-up of so many rows is sent: those of the period
// always, early ones if the last few of the period did not have far more. A process
// that has not sent so many does not know what the shard had before.
func (h *recent) admit(rows int, early bool) bool {
	if !early {
		h.rows[h.n%recentMax] = rows
		h.n++
		return true
	}
	if h.n < recentMax {
		return false
	}
	for _, had := range h.rows {
		if rows < (had+1)/2 {
			return false
		}
	}
	return true
}
