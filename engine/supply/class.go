package supply

import (
	"encoding/binary"
	"math"

	"github.com/tonnage/tonnage/columnar"
)

// kind is what all machines of a class have in common.
type kind struct {
	shape        uint32
	instanceType uint32 // names
	price        float64
	probability  float64
	values       []uint32 // by key column: the value, 0 = absent or not a key that splits
}

// value returns the value of a key that splits.
func (k *kind) value(key int) uint32 {
	if key < len(k.values) {
		return k.values[key]
	}
	return 0
}

// set makes k a copy of another, with its own memory.
func (k *kind) set(other *kind) {
	values := k.values[:0]
	*k = *other
	k.values = values
	k.values = append(k.values, other.values...)
}

// class describes machines that matchers cannot tell apart.
type class struct {
	kind
	key      string
	matchers []uint32 // that accept it, ascending
	count    int
	born     uint64 // version of the table
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

// classOf returns the class of a kind, a new one if there is none yet. The
// caller counts the machine in.
func (t *Table) classOf(x *kind) uint32 {
	k := binary.LittleEndian.AppendUint32(t.classes.key[:0], x.shape)
	k = binary.LittleEndian.AppendUint32(k, x.instanceType)
	k = binary.LittleEndian.AppendUint64(k, math.Float64bits(x.price))
	k = binary.LittleEndian.AppendUint64(k, math.Float64bits(x.probability))
	for i := range t.keys {
		if t.keys[i].splits {
			k = binary.LittleEndian.AppendUint32(k, x.value(i))
		}
	}
	t.classes.key = k
	if id, ok := t.classes.ids[string(k)]; ok {
		return id
	}
	return t.newClass(x, string(k))
}

func (t *Table) newClass(k *kind, key string) uint32 {
	x := class{key: key, born: t.changes.now}
	x.values = make([]uint32, 0, len(t.keys))
	x.set(k)
	t.retainKind(&x.kind)
	x.matchers = t.acceptedBy(&x.kind)
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

// retainKind takes one more reference to what a kind is made of.
func (t *Table) retainKind(k *kind) {
	t.shapes.names.again(k.shape)
	t.names.again(k.instanceType)
	for _, v := range k.values {
		t.values.again(v)
	}
}

// releaseKind gives the references back.
func (t *Table) releaseKind(k *kind) {
	t.shapes.release(k.shape)
	t.names.release(k.instanceType)
	for _, v := range k.values {
		t.values.release(v)
	}
}

// dropFromClass counts a row out of its class, which ends with its last row.
func (t *Table) dropFromClass(id uint32) {
	x := &t.classes.list[id]
	if x.count--; x.count > 0 {
		return
	}
	delete(t.classes.ids, x.key)
	t.releaseKind(&x.kind)
	*x = class{}
	t.classes.free = append(t.classes.free, id)
}

// kindOf returns what a row's class is made of.
func (t *Table) kindOf(r columnar.Row) *kind { return &t.classes.list[t.cols.class[r]].kind }

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

// ClassCount returns how many machines a class has; 0 when there is no such class.
func (t *Table) ClassCount(id uint32) int {
	if int(id) >= len(t.classes.list) {
		return 0
	}
	return t.classes.list[id].count
}

// ClassValue returns the number of the value that all machines of a class have
// under a key that splits classes, 0 = absent.
func (t *Table) ClassValue(class uint32, key int) uint32 { return t.classes.list[class].value(key) }
