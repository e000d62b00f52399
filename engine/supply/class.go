package supply

import (
	"encoding/binary"
	"math"

	"github.com/tonnage/tonnage/columnar"
)

// class describes machines that matchers cannot tell apart.
type class struct {
	key          string
	shape        uint32
	instanceType uint32
	price        float64
	probability  float64
	values       []uint32 // by key column: the value, 0 = absent or not a key that splits
	matchers     []uint32 // that accept it, ascending
	count        int
}

// classes numbers the classes in use from 1. A class exists as long as a
// machine is in it, and holds references to what it is made of.
type classes struct {
	ids  map[string]uint32
	list []class
	free []uint32
	key  []byte
}

func newClasses() classes { return classes{ids: map[string]uint32{}, list: make([]class, 1)} }

// classOf returns the class of a filled row and counts the row in.
func (t *Table) classOf(r columnar.Row) uint32 {
	c := &t.cols
	k := binary.LittleEndian.AppendUint32(t.classes.key[:0], c.shape[r])
	k = binary.LittleEndian.AppendUint32(k, c.instanceType[r])
	k = binary.LittleEndian.AppendUint64(k, math.Float64bits(c.price[r]))
	k = binary.LittleEndian.AppendUint64(k, math.Float64bits(c.probability[r]))
	for i := range t.keys {
		if t.keys[i].splits {
			k = binary.LittleEndian.AppendUint32(k, t.keys[i].values[r])
		}
	}
	t.classes.key = k
	id, ok := t.classes.ids[string(k)]
	if !ok {
		id = t.newClass(r, string(k))
	}
	t.classes.list[id].count++
	return id
}

func (t *Table) newClass(r columnar.Row, key string) uint32 {
	c := &t.cols
	x := class{
		key: key, shape: c.shape[r], instanceType: c.instanceType[r],
		price: c.price[r], probability: c.probability[r], values: make([]uint32, len(t.keys)),
	}
	t.shapes.names.again(x.shape)
	t.names.again(x.instanceType)
	for i := range t.keys {
		if t.keys[i].splits {
			x.values[i] = t.keys[i].values[r]
			t.values.again(x.values[i])
		}
	}
	for m := range t.matchers.list {
		if t.matchers.list[m].ready && t.accepts(&t.matchers.list[m], &x) {
			x.matchers = append(x.matchers, uint32(m))
		}
	}
	var id uint32
	if n := len(t.classes.free); n > 0 {
		id, t.classes.free = t.classes.free[n-1], t.classes.free[:n-1]
		t.classes.list[id] = x
	} else {
		id = uint32(len(t.classes.list))
		t.classes.list = append(t.classes.list, x)
	}
	t.classes.ids[key] = id
	return id
}

// dropFromClass counts a row out of its class, which ends with its last row.
func (t *Table) dropFromClass(id uint32) {
	x := &t.classes.list[id]
	if x.count--; x.count > 0 {
		return
	}
	delete(t.classes.ids, x.key)
	t.shapes.release(x.shape)
	t.names.release(x.instanceType)
	for _, v := range x.values {
		t.values.release(v)
	}
	*x = class{}
	t.classes.free = append(t.classes.free, id)
}

// reclass forms all classes anew after the keys that split them have changed.
// The indexes do not depend on classes and stay. O(machines).
func (t *Table) reclass() {
	rows := t.Order()
	for _, r := range rows {
		t.dropFromClass(t.cols.class[r])
	}
	for _, r := range rows {
		t.cols.class[r] = t.classOf(r)
	}
}

// ClassMax is one more than the largest class number in use.
func (t *Table) ClassMax() int { return len(t.classes.list) }

// Class returns the class of a machine, which changes only with the machine's
// record or with the keys that demand uses.
func (t *Table) Class(r columnar.Row) uint32 { return t.cols.class[r] }

// ClassInfo is what all machines of a class have in common.
type ClassInfo struct {
	// Vector is the effective allocatable, in the order of Dims.
	Vector       []int64
	InstanceType string
	Price        float64
	Probability  float64
	// Matchers accept the class; ascending.
	Matchers []uint32
	Count    int
}

// ClassInfo describes a class; Count is 0 when there is no such class. Valid
// until the next change; do not modify.
func (t *Table) ClassInfo(id uint32) ClassInfo {
	if int(id) >= len(t.classes.list) || t.classes.list[id].count == 0 {
		return ClassInfo{}
	}
	x := &t.classes.list[id]
	return ClassInfo{
		Vector: t.shapes.vec(x.shape), InstanceType: t.names.text(x.instanceType),
		Price: x.price, Probability: x.probability, Matchers: x.matchers, Count: x.count,
	}
}
