// Command asm writes the vector kernels of packages bitmap and columnar: Go
// assembly and the declarations that go with it.
//
//	go run . ../..    writes the files into the checkout
//	go test .         fails when a file is not what would be written
//
// It is a module of its own, so that what it needs never becomes a dependency
// of the product.
//
// # Rules for every kernel
//
//   - It works on whole blocks and trusts its arguments: the Go function in
//     front checks lengths, cuts the blocks off and does the rest itself.
//   - It reads and writes nothing outside these blocks, not even to ignore it,
//     and asks for no alignment.
//   - It is handed at least one block, so that loops test at their end.
//   - It calls nothing, keeps nothing on the stack, and ends with VZEROUPPER.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "asm:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: asm CHECKOUT")
	}
	files, err := generate()
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(args[0], filepath.FromSlash(name)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files by their name in the checkout.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range []struct {
		pkg     string
		kernels func(*asm)
	}{
		{"bitmap", func(a *asm) { filterKernels(a); wordKernels(a) }},
	} {
		a := &asm{Context: build.NewContext()}
		a.ConstraintExpr("amd64,!purego")
		p.kernels(a)
		file, err := a.Result()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.pkg, err)
		}
		if err := pass.Compile.Execute(file); err != nil {
			return nil, fmt.Errorf("%s: %w", p.pkg, err)
		}
		cfg := printer.Config{Name: "tools/asm", Pkg: p.pkg}
		code, err := printer.NewGoAsm(cfg).Print(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.pkg, err)
		}
		stubs, err := printer.NewStubs(cfg).Print(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.pkg, err)
		}
		files[p.pkg+"/simd_amd64.s"] = code
		files[p.pkg+"/simd_stubs_amd64.go"] = stubs
	}
	return files, nil
}

// asm is what a file is built in.
type asm struct{ *build.Context }

// kernel begins a function.
func (a *asm) kernel(name, signature string, doc ...string) {
	a.Function(name)
	a.SignatureExpr(signature)
	a.Doc(doc...)
	a.Pragma("noescape")
}

// arg loads a parameter.
func (a *asm) arg(name string) reg.GPVirtual {
	return a.Load(a.Param(name), a.GP64()).(reg.GPVirtual)
}

// at is memory some bytes behind a pointer.
func at(p reg.GPVirtual, bytes int) operand.Mem { return operand.Mem{Base: p, Disp: bytes} }

// repeat closes a loop: one round less to go.
func (a *asm) repeat(rounds reg.GPVirtual, label string) {
	a.DECQ(rounds)
	a.JNZ(operand.LabelRef(label))
}

// end leaves the function.
func (a *asm) end() {
	a.VZEROUPPER()
	a.RET()
}

// suffix names a twin.
func suffix(avx512 bool) string {
	if avx512 {
		return "AVX512"
	}
	return "AVX2"
}
