package alloc

import (
	"fmt"
	"reflect"
	"sync"
)

// pointerFree remembers the types that passed the check (reflect.Type → true).
// Types are finite in a program, so it is bounded.
var pointerFree sync.Map

// MustPointerFree panics when values of type T hold a pointer at any depth:
// strings, slices, maps, channels, functions and interfaces count as such.
// Memory that the collector does not scan must not hold one. The answer is
// found once per type.
func MustPointerFree[T any]() {
	t := reflect.TypeFor[T]()
	if _, ok := pointerFree.Load(t); ok {
		return
	}
	if at, kind := findPointer(t, t.String()); at != "" {
		panic(fmt.Sprintf("alloc: %s can not be kept in memory without pointers: %s is a %s; store a row, a handle or an offset instead", t, at, kind))
	}
	pointerFree.Store(t, true)
}

// findPointer returns the path to the first pointer in t and its kind, "" when
// there is none.
func findPointer(t reflect.Type, path string) (string, reflect.Kind) {
	switch k := t.Kind(); k {
	case reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return "", k
	case reflect.Array:
		if t.Len() == 0 {
			return "", k
		}
		return findPointer(t.Elem(), path+"[0]")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if at, kind := findPointer(f.Type, path+"."+f.Name); at != "" {
				return at, kind
			}
		}
		return "", k
	default:
		return path, k
	}
}
