package cli

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a Chromium without a window, driven through the pipe of its DevTools
// protocol: JSON messages that end in NUL bytes. A test uses it from one goroutine.
type browser struct {
	t       testing.TB
	to      *os.File
	answers *os.File
	from    *bufio.Reader // of answers
	last    int           // number of the last command
	session string        // of the page
	events  []devToolsMessage
	axe     string // the script of axe-core, "none" if it is not installed, "" before the first search
}

type devToolsMessage struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	SessionID string          `json:"sessionId"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct{ Message string }
}

// newBrowser starts Chromium, and skips the test if there is none.
func newBrowser(t testing.TB) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed, so nothing shows what the page looks like")
	}
	commands, to, err := os.Pipe()
	require.NoError(t, err)
	from, answers, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // it leaves directories there
	cmd.ExtraFiles = []*os.File{commands, answers}        // descriptors 3 and 4
	require.NoError(t, cmd.Start())
	require.NoError(t, commands.Close())
	require.NoError(t, answers.Close())
	b := &browser{t: t, to: to, answers: from, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		_ = to.Close() // ends the browser; its exit code does not depend on the page
		_, _ = io.Copy(io.Discard, from)
		_ = cmd.Wait()
		_ = from.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call sends a command and waits for its result. It keeps the events that come before.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.last++
	message := map[string]any{"id": b.last, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	require.NoError(b.t, err)
	_, err = b.to.Write(append(text, 0))
	require.NoError(b.t, err)
	for {
		m := b.read()
		if m.ID != b.last {
			b.events = append(b.events, m)
			continue
		}
		require.Nil(b.t, m.Error, "%s: %v", method, m.Error)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
		return
	}
}

func (b *browser) read() (m devToolsMessage) {
	b.t.Helper()
	require.NoError(b.t, b.answers.SetReadDeadline(time.Now().Add(2*time.Minute))) // for each answer: on a busy machine all take long
	text, err := b.from.ReadBytes(0)
	require.NoError(b.t, err, "the browser does not answer")
	require.NoError(b.t, json.Unmarshal(text[:len(text)-1], &m))
	return m
}

// open shows a file and waits until it is complete.
func (b *browser) open(file string) {
	b.t.Helper()
	b.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	for b.eval(`document.readyState`) != "complete" {
		time.Sleep(20 * time.Millisecond)
	}
}

// eval returns the value of an expression, as a string.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var result struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &result)
	require.Nil(b.t, result.ExceptionDetails, "%.200s", expression)
	return fmt.Sprint(result.Result.Value)
}

// look sets the width of the window and the colours, and saves a picture of all of the
// page if SEALIFT_PICTURES names a directory.
func (b *browser) look(name string, width int, colours string) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": colours}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	if os.Getenv("SEALIFT_PICTURES") == "" {
		return
	}
	var picture struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &picture)
	b.save(name+".png", picture.Data)
}

// print returns the page as a PDF on paper of that size, in inches.
func (b *browser) print(name string, width, height float64) []byte {
	b.t.Helper()
	var pdf struct{ Data string }
	b.call("Page.printToPDF", map[string]any{"paperWidth": width, "paperHeight": height, "printBackground": false}, &pdf)
	data, err := base64.StdEncoding.DecodeString(pdf.Data)
	require.NoError(b.t, err)
	if os.Getenv("SEALIFT_PICTURES") != "" {
		b.save(name+".pdf", pdf.Data)
	}
	return data
}

func (b *browser) save(name, data string) {
	b.t.Helper()
	content, err := base64.StdEncoding.DecodeString(data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(os.Getenv("SEALIFT_PICTURES"), name), content, 0o600))
}

// complaints returns the messages of the page on the console, and its requests for anything but
// the file itself.
func (b *browser) complaints(file string) (list []string) {
	b.eval("0") // receives all earlier events
	for _, m := range b.events {
		switch m.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			list = append(list, m.Method+": "+string(m.Params))
		case "Network.requestWillBeSent":
			var p struct{ Request struct{ URL string } }
			require.NoError(b.t, json.Unmarshal(m.Params, &p))
			if p.Request.URL != "file://"+file && !strings.HasPrefix(p.Request.URL, "about:") {
				list = append(list, "request: "+p.Request.URL)
			}
		}
	}
	return list
}
