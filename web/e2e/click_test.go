package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// element is an expression for the first shown element of a selector that has a text, any if it is empty.
func element(selector, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q) && e.getClientRects().length > 0)`, selector, text)
}

// click clicks on the first element of a selector with the mouse, as a person would; it waits
// for the element to be there. A text narrows the choice. Where an answer that came meanwhile has moved the element away from under the mouse, it aims again.
func (p *page) click(selector string, text ...string) {
	p.t.Helper()
	which := element(selector, strings.Join(text, " "))
	p.until("something to click on: "+selector+" "+strings.Join(text, " "), which+` !== undefined`)
	for range 5 {
		var at struct{ X, Y float64 }
		p.until("it to be there yet", which+` !== undefined`)
		p.must(`(() => {
			const e = `+which+`;
			e.scrollIntoView({ block: 'center' });
			const box = e.getClientRects()[0];
			globalThis.aimed = { e, top: box.top, left: box.left, hit: null };
			addEventListener('click', (event) => { aimed.hit = event.target; }, { capture: true, once: true });
			return { X: box.left + Math.min(box.width / 2, 40), Y: box.top + box.height / 2 };
		})()`, &at)
		p.clickAt(at.X, at.Y)
		var missed bool
		p.must(`(() => {
			const a = globalThis.aimed; // another page has none
			if (!a || a.hit && a.e.contains(a.hit)) return false;
			const box = a.e.getClientRects()[0];
			return !box || Math.abs(box.top - a.top) > 1 || Math.abs(box.left - a.left) > 1;
		})()`, &missed)
		if !missed {
			return
		}
	}
	p.t.Fatalf("%s %s moves whenever it is clicked on", selector, strings.Join(text, " "))
}

// clickAt clicks on a point of the window.
func (p *page) clickAt(x, y float64) {
	p.t.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		p.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}, nil)
	}
}

// choose picks an option of a select element, by its value.
func (p *page) choose(selector, value string) {
	p.t.Helper()
	p.must(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.value = %q;
		e.dispatchEvent(new Event('change', { bubbles: true }));
	})()`, selector, value), nil)
}

// millis is a time as options of the page have it.
func millis(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

// typeText types into an element that has been clicked on.
func (p *page) typeText(text string) {
	p.t.Helper()
	p.do("Input.insertText", map[string]any{"text": text}, nil)
}

// says waits for an element to have a text.
func (p *page) says(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s to say %q", selector, text), element(selector, text)+` !== undefined`)
}
