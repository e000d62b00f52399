package e2e

import "testing"

// small opens the page of a small made-up fleet.
func small(t *testing.T) *page {
	t.Helper()
	p := open(t)
	url, next := synthetic(t, 300, 2, 120)
	p.size(1280, 900, "light")
	p.visit(url)
	next()
	p.until("the charts", drawn)
	return p
}

func TestAllChartsShareOneCursor(t *testing.T) {
	p := small(t)
	p.must(`(() => {
		const plot = document.querySelector('#machines .plot'), box = plot.getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width / 2, clientY: box.top + 50, bubbles: true }));
	})()`, nil)
	p.until("all charts to show the same moment", `(() => {
		const at = [...document.querySelectorAll('#machines .now, #spend .now')].map((e) => / at (\d\d:\d\d:\d\d)$/.exec(e.textContent)?.[1]);
		return at.every((x) => x && x === at[0]);
	})()`)
	p.must(`document.querySelector('#machines .plot').dispatchEvent(new PointerEvent('pointerleave'))`, nil)
	p.until("the charts to show now again", `![...document.querySelectorAll('.now')].some((e) => e.textContent.includes(' at '))`)
	p.quiet()
}

func TestTheKeyboardReadsAChart(t *testing.T) {
	p := small(t)
	p.click(`[data-tab=engine]`)
	p.until("the chart of cycles", `document.querySelectorAll('#cycle path.area').length > 0`)
	p.must(`(() => {
		const plot = document.querySelector('#cycle .plot');
		plot.focus();
		for (const key of ['ArrowLeft', 'ArrowLeft']) plot.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
	})()`, nil)
	p.until("the values to be said", `/^\d\d:\d\d:\d\d: 1 · acquire [\d.]+ ms/.test(document.querySelector('#cycle [aria-live]').textContent)`)
	p.must(`document.querySelector('#cycle .twin').open = true`, nil)
	p.until("the table with percentiles", `document.querySelector('#cycle .twin table thead').textContent.includes('p99') && document.querySelectorAll('#cycle .twin tbody tr').length === 7`)
	p.quiet()
}

func TestControlsDoWhatTheySay(t *testing.T) {
	p := small(t)
	p.must(`document.querySelector('#machines .legend button').click()`, nil)
	p.until("Configured to be left out", `document.querySelector('#machines .legend button').getAttribute('aria-pressed') === 'false' && !document.querySelector('#machines path.area[style*="--blue"]')`)

	p.must(`document.querySelector('#theme').click()`, nil)
	p.until("the dark theme", `document.documentElement.dataset.theme === 'dark' && getComputedStyle(document.body).backgroundColor === 'rgb(14, 19, 25)'`)
	p.visit(p.url)
	p.until("the choice to outlive a reload", `document.documentElement.dataset.theme === 'dark' && document.querySelector('#theme').textContent === 'Light' && `+drawn)

	p.until("how far back it reaches", `/ machines · the last [12]m \d+s$/.test(document.querySelector('#machines .now').textContent)`)
	p.must(`document.querySelector('#window input[value="120"]').click()`, nil)
	p.until("the shorter time", `document.querySelector('#window input:checked').value === '120' && !document.querySelector('#machines .now').textContent.includes('the last')`)

	p.must(`document.querySelector('#recent .chip').click()`, nil)
	p.until("Bootstraps only", `document.querySelectorAll('#recent tbody tr').length === 0 || [...document.querySelectorAll('#recent td.kind')].every((e) => e.textContent.startsWith('Bootstrap'))`)
	p.must(`document.querySelector('#unmet .chip').click()`, nil)
	p.until("one reason only", `(() => {
		const chip = document.querySelector('#unmet .chip[aria-pressed="true"] span')?.textContent;
		return chip && [...document.querySelectorAll('#unmet td.reason')].every((e) => e.textContent === chip);
	})()`)

	p.must(`document.querySelector('#hold').click()`, nil)
	p.until("the page to hold", `document.querySelector('#live').textContent === 'frozen' && document.querySelector('#hold').textContent === 'Resume'`)
	p.quiet()
}
