//go:build picture

package e2e

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPicture makes the picture of the README, from a page that is running
// already and has some history:
//
//	make run &
//	TONNAGE_PAGE=http://127.0.0.1:8080 go test -tags picture -run Picture ./web/e2e
func TestPicture(t *testing.T) {
	url := os.Getenv("TONNAGE_PAGE")
	if url == "" {
		t.Fatal("set TONNAGE_PAGE to the address of a running page")
	}
	p := open(t)
	for _, scheme := range []string{"dark", "light"} {
		p.size(1280, 900, scheme)
		p.visit(url)
		p.until("the charts", drawn)
		p.shot("picture-"+scheme+".png", 0)
	}
	path := filepath.Join(root(t), "docs", "images", "page-light.png")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	const height = 1000
	p.size(1280, height, "light")
	// A Need is open: why it is short, and what each rack could give it.
	p.must(`location.hash = '#/overview?open=need/moe'`, nil)
	p.until("the racks", `document.querySelector('#drawer h4')?.textContent === 'What each domain could give it'`)
	if err := os.WriteFile(path, small256(t, p.shot("picture-light-top.png", height)), 0o644); err != nil {
		t.Fatal(err)
	}
	p.size(390, 844, "light")
	p.until("the charts", drawn)
	p.shot("picture-390.png", 0)
}

// small256 brings a picture down to its 256 commonest colours, which a page of
// flat areas and text hardly shows, and a third of the bytes.
func small256(t *testing.T, body []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	count := map[color.RGBA]int{}
	b := from.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	commonest := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var palette color.Palette
	for _, c := range commonest[:min(256, len(commonest))] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(b, palette)
	draw.Draw(to, b, from, b.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
