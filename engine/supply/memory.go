package supply

import (
	"unsafe"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/model"
)

// Memory is what a table holds, in bytes.
type Memory struct {
	Machines     int64 // columns, those of attribute keys included, and the id order
	Dictionaries int64 // ids, names, label sets, stamps, shapes, classes
	Index        int64 // sets of rows
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.Machines + m.Dictionaries + m.Index }

// Memory adds up what the table holds. Maps are estimated. It visits every
// class and every set of the index: ask once per report, not per cycle.
func (t *Table) Memory() Memory {
	const reserved = unsafe.Sizeof(model.Reservation{}) + 8
	m := Memory{
		Machines: int64(len(t.cols.state))*columnBytes + t.ids.bytes() + t.changes.bytes() + int64(cap(t.digests))*8 + int64(len(t.reservations))*2*int64(reserved),
		Dictionaries: t.ids.dict.Bytes() + t.names.bytes() + t.hosts.bytes() + t.values.bytes() +
			t.labels.bytes() + t.stamps.bytes() + t.shapes.bytes() + t.classes.bytes(),
		Index: t.index.sets.Bytes(),
	}
	for i := range t.keys {
		m.Machines += int64(cap(t.keys[i].values)) * 4
	}
	return m
}

// bytes returns what the classes take.
func (c *classes) bytes() int64 {
	n := int64(cap(c.list)) * int64(unsafe.Sizeof(class{}))
	for i := range c.list {
		x := &c.list[i]
		n += int64(cap(x.values)+cap(x.matchers))*4 + 3*int64(len(x.key))
	}
	return n
}

// Account enters the table in the accounts of its owner.
func (t *Table) Account(accounts *alloc.Accounts) {
	enter := func(p alloc.Purpose, of func(Memory) int64) {
		accounts.Enter(p, func() alloc.Usage {
			n := of(t.Memory())
			return alloc.Usage{Used: n, Reserved: n}
		})
	}
	enter(alloc.Machines, func(m Memory) int64 { return m.Machines })
	enter(alloc.Dictionaries, func(m Memory) int64 { return m.Dictionaries })
	enter(alloc.Index, func(m Memory) int64 { return m.Index })
}
