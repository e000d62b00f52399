package invariants

import (
	"testing"
	"unsafe"
)

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestStampExpiresWithItsEpoch(t *testing.T) {
	var e Epoch
	s := e.Stamp()
	if panics(func() { s.Check("loan") }) {
		t.Fatal("a fresh stamp panicked")
	}
	e.Advance()
	if got := panics(func() { s.Check("loan") }); got != Enabled {
		t.Errorf("stale stamp panicked: %v, want %v", got, Enabled)
	}
	if panics(func() { e.Stamp().Check("loan"); Stamp{}.Check("zero") }) {
		t.Error("a new stamp or the zero stamp panicked")
	}
}

func TestNothingRemainsWithoutTheTag(t *testing.T) {
	if size := unsafe.Sizeof(Epoch{}) + unsafe.Sizeof(Stamp{}); !Enabled && size != 0 {
		t.Errorf("Epoch and Stamp take %d bytes, want 0", size)
	}
}

func TestPoison(t *testing.T) {
	for n := range 70 {
		b := make([]byte, n+2)
		Poison(b[1 : n+1])
		for i, x := range b {
			if inside := i > 0 && i <= n; (x == PoisonByte) != inside {
				t.Fatalf("poison of %d bytes went astray: %x", n, b)
			}
		}
	}
}
