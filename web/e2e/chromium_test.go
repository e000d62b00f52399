package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is how long a condition of the page may take to come true. Other programs can leave the browser next to no processor: what is late then is
// still right. Where a tab is watched for minutes (minutesVariable) the machine has other work for certain.
var patience = func() time.Duration {
	if os.Getenv(minutesVariable) != "" {
		return 15 * time.Minute
	}
	return 2 * time.Minute
}()

// callLimit is how long the browser may take for one command. Some wait for a condition of the page.
var callLimit = patience + 30*time.Second

// browser drives a Chromium over a pair of pipes: it reads commands from file
// 3 and writes answers and events to file 4, each ended by a zero byte. That is
// the whole protocol, so it needs no library and no port.
type browser struct {
	cmd     *exec.Cmd
	to      io.WriteCloser
	logs    bytes.Buffer // of the process; read only after it has ended
	profile string

	mu      sync.Mutex
	nextID  int
	waiting map[int]chan message
	pages   map[string]*page
	gone    chan struct{}
}

type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// findChromium returns the browser's path. A machine without one fails the
// test unless it is told to do without: a page nobody looked at is not tested.
func findChromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("TONNAGE_NO_BROWSER") == "1" {
		t.Skip("TONNAGE_NO_BROWSER=1: the page is not looked at")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium found; install it (Debian: apt-get install --no-install-recommends chromium fonts-dejavu-core), or set TONNAGE_NO_BROWSER=1 to leave the page untested")
	return ""
}

// shared is the one browser of all tests; each has a window of its own. Tests that mostly wait for the page's pace run beside each other.
var shared struct {
	sync.Once
	browser *browser
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.browser != nil {
		shared.browser.close()
	}
	os.Exit(code)
}

func launch(path string) (*browser, error) {
	theirIn, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "tonnage-chromium-")
	if err != nil {
		return nil, err
	}
	b := &browser{to: ours, profile: profile, waiting: map[int]chan message{}, pages: map[string]*page{}, gone: make(chan struct{})}
	b.cmd = exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-extensions", "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+profile, "about:blank")
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	b.cmd.Stdout, b.cmd.Stderr = &b.logs, &b.logs
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	theirIn.Close()
	theirOut.Close()
	go b.read(answers)
	return b, nil
}

// close asks the browser to end, and makes it.
func (b *browser) close() {
	_ = b.call("", "Browser.close", nil, nil)
	b.to.Close()
	select {
	case <-b.gone:
	case <-time.After(callLimit):
		b.cmd.Process.Kill()
		fmt.Fprintf(os.Stderr, "chromium did not end; it said:\n%s", b.logs.String())
	}
	b.cmd.Wait()
	os.RemoveAll(b.profile)
}

// read hands answers to their callers and events to their pages.
func (b *browser) read(r io.Reader) {
	defer close(b.gone)
	in := bufio.NewReader(r)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimRight(raw, "\x00"), &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, page := b.waiting[m.ID], b.pages[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case page != nil:
			page.event(m)
		}
	}
}

// call sends a command and waits for its answer.
func (b *browser) call(session, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if params == nil {
		raw = []byte("{}")
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.nextID++
	id := b.nextID
	b.waiting[id] = answer
	line, err := json.Marshal(message{ID: id, SessionID: session, Method: method, Params: raw})
	if err == nil {
		_, err = b.to.Write(append(line, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-b.gone:
		return fmt.Errorf("%s: the browser ended", method)
	case <-time.After(callLimit):
		return fmt.Errorf("%s: no answer in %v", method, callLimit)
	}
}

// page is one tab, with what its console complained about.
type page struct {
	t       *testing.T
	b       *browser
	session string
	url     string
	loaded  chan struct{}

	mu         sync.Mutex
	complaints []string
}

// open opens a tab in the shared browser.
func open(t *testing.T) *page {
	t.Helper()
	path := findChromium(t)
	shared.Do(func() { shared.browser, shared.err = launch(path) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	b := shared.browser
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	err := errors.Join(
		b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "newWindow": true}, &target), // a tab behind another draws nothing
		b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.call("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil) })
	p := &page{t: t, b: b, session: attached.SessionID, loaded: make(chan struct{}, 16)}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Runtime", "Log", "Page", "Network"} {
		p.do(domain+".enable", nil, nil)
	}
	p.do("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "UTC"}, nil)
	return p
}

// event keeps errors and warnings, and failed requests.
func (p *page) event(m message) {
	switch m.Method {
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default:
		}
		return
	case "Runtime.exceptionThrown":
	case "Runtime.consoleAPICalled":
		if !bytes.Contains(m.Params, []byte(`"type":"error"`)) && !bytes.Contains(m.Params, []byte(`"type":"warning"`)) {
			return
		}
	case "Log.entryAdded":
		if !bytes.Contains(m.Params, []byte(`"level":"error"`)) && !bytes.Contains(m.Params, []byte(`"level":"warning"`)) {
			return
		}
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, fmt.Sprintf("%s: %.600s", m.Method, m.Params))
}

// quiet fails the test when the console has had anything to say.
func (p *page) quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.complaints {
		p.t.Errorf("the console is not silent: %s", c)
	}
	p.complaints = nil
}

// forget leaves out what the console has said so far.
func (p *page) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = nil
}

func (p *page) do(method string, params, result any) {
	p.t.Helper()
	if err := p.b.call(p.session, method, params, result); err != nil {
		p.t.Fatal(err)
	}
}

// visit loads an address and waits for the load event.
func (p *page) visit(url string) {
	p.t.Helper()
	p.url = url
	p.loads(func() {
		var nav struct{ ErrorText string }
		p.do("Page.navigate", map[string]any{"url": url}, &nav)
		if nav.ErrorText != "" {
			p.t.Fatalf("visit %s: %s", url, nav.ErrorText)
		}
	})
}

// loads does something that loads a page, and waits for the load event.
func (p *page) loads(do func()) {
	p.t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	do()
	select {
	case <-p.loaded:
	case <-time.After(callLimit):
		p.t.Fatalf("%s: not loaded in %v", p.url, callLimit)
	}
}

// size sets the window and the colour scheme that the system asks for.
func (p *page) size(width, height int, scheme string) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// eval runs an expression in the page; a promise is waited for.
func (p *page) eval(expression string, value any) error {
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if err != nil {
		return err
	}
	if out.ExceptionDetails != nil {
		return fmt.Errorf("%s %s", out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	}
	if value == nil || len(out.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(out.Result.Value, value)
}

// must is eval that fails the test.
func (p *page) must(expression string, value any) {
	p.t.Helper()
	if err := p.eval(expression, value); err != nil {
		p.t.Fatalf("in the page: %s: %v", expression, err)
	}
}

// until waits for a condition of the page to hold.
func (p *page) until(what, condition string) {
	p.t.Helper()
	err := p.eval(fmt.Sprintf(`new Promise((ok, no) => {
		const late = Date.now() + %d;
		(function look() {
			if (%s) ok(true);
			else if (Date.now() > late) no(new Error('still not so'));
			else setTimeout(look, 50);
		})();
	})`, patience.Milliseconds(), condition), nil)
	if err != nil {
		p.t.Errorf("waiting for %s: %v", what, err)
		p.quiet()
		p.t.Logf("the page: %s", p.condition())
		p.shot("failed.png", 0)
		p.t.FailNow()
	}
}

// condition says what a page that does not come along is waiting for: whether it is shown and
// drawn at all, and what became of what it has fetched.
func (p *page) condition() (says string) {
	err := p.eval(`new Promise((done) => {
		const say = (drawn) => done([document.readyState, document.visibilityState, drawn,
			...performance.getEntriesByType('resource').map((r) => new URL(r.name).pathname + ' ' + r.responseStatus + ' ' + Math.round(r.duration) + ' ms')].join(', '));
		requestAnimationFrame(() => say('drawn'));
		setTimeout(() => say('not drawn within 2 s'), 2000);
	})`, &says)
	if err != nil {
		return err.Error()
	}
	return says
}

// shot saves a picture under build/screenshots: the whole page, or its upper
// part when a height is given.
func (p *page) shot(name string, height int) []byte {
	p.t.Helper()
	var size struct{ W, H int }
	p.must(`({W: document.documentElement.clientWidth, H: document.documentElement.scrollHeight})`, &size)
	if height > 0 {
		size.H = height
	}
	var out struct{ Data string }
	p.do("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.W, "height": size.H, "scale": 1},
	}, &out)
	png, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	dir := filepath.Join(root(p.t), "build", "screenshots")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), png, 0o644)); err != nil {
		p.t.Fatal(err)
	}
	return png
}

// root returns the repository's root.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
