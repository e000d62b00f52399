package wire

import "fmt"

// ParseMachine takes a bigfleet.v1alpha1.Machine that stands by itself, as Get
// answers; it is record 0 then. What was read from List before is no longer
// valid. The message must not change any more.
func (l *List) ParseMachine(msg []byte) error {
	l.Done()
	if len(msg) > MessageBytesMax {
		return fmt.Errorf("machine of %d bytes: at most %d are read", len(msg), MessageBytesMax)
	}
	l.one(msg, 0, len(msg))
	return nil
}

// ParseAck takes a TransitionAck, as calls that change a machine answer. The
// machine is record 0; without one there is no record. It returns the name of
// the operation. What was read from List before is no longer valid. The message
// must not change any more.
func (l *List) ParseAck(msg []byte) (operation string, err error) {
	l.Done()
	if len(msg) > MessageBytesMax {
		return "", fmt.Errorf("answer of %d bytes: at most %d are read", len(msg), MessageBytesMax)
	}
	c := cursor{buf: msg}
	for c.next() {
		switch {
		case c.holds(fieldAckOperation):
			operation = string(c.bytes)
		case c.holds(fieldAckMachine):
			l.one(msg, c.at-len(c.bytes), c.at)
		}
	}
	if c.err != nil {
		l.Done()
		return "", fmt.Errorf("answer %w", c.err)
	}
	return operation, nil
}

// one makes the machine at these bytes of the message the only record.
func (l *List) one(msg []byte, from, to int) {
	l.parts, l.records = append(l.parts[:0], part{msg, 0, 1}), append(l.records[:0], l.noted.parse(msg, from, to))
}
