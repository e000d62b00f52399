package httpguard

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The limits of a token, in bytes. A shorter one could be guessed.
const (
	TokenBytesMin = 32
	TokenBytesMax = 4096
)

// Token is a secret in a file. The file is read again when it has changed; while
// what it holds then cannot be used, the token before it still is. Safe for
// concurrent use.
type Token struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	secret string
	info   fs.FileInfo // of the file that was read last
}

// OpenToken reads a token file: one line with one token of TokenBytesMin to
// TokenBytesMax printable ASCII characters. The error names the file and says
// what is wrong, never what it holds. log may be nil.
func OpenToken(path string, log *slog.Logger) (*Token, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Token{path: path, log: log}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if t.secret, err = ReadToken(path); err != nil {
		return nil, err
	}
	t.info = info
	return t, nil
}

// ReadToken returns the token in a file; the error is that of OpenToken.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, TokenBytesMax+3)) // a line's end, and one more
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// CheckToken says what is wrong with a token, and not what it is.
func CheckToken(token string) error {
	switch {
	case len(token) < TokenBytesMin:
		return fmt.Errorf("the token has %d bytes and must have at least %d; make one with: openssl rand -hex 32", len(token), TokenBytesMin)
	case len(token) > TokenBytesMax:
		return fmt.Errorf("the token must have at most %d bytes", TokenBytesMax)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("the token must be one line of printable ASCII without spaces; make one with: openssl rand -hex 32")
	}
	return nil
}

// current returns the newest token that can be used.
func (t *Token) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err == nil && t.info != nil && os.SameFile(info, t.info) && info.ModTime().Equal(t.info.ModTime()) && info.Size() == t.info.Size() {
		return t.secret
	}
	if err != nil {
		if t.info != nil {
			t.log.Warn("the token file is gone; the token that was read last still is accepted", "error", err)
		}
		t.info = nil
		return t.secret
	}
	t.info = info
	secret, err := ReadToken(t.path)
	if err != nil {
		t.log.Warn("the changed token cannot be used; the one before it still is", "error", err)
		return t.secret
	}
	t.secret = secret
	t.log.Info("token read again", "file", t.path)
	return t.secret
}

// is compares in a time that does not depend on either.
func (t *Token) is(shown string) bool {
	a, b := sha256.Sum256([]byte(shown)), sha256.Sum256([]byte(t.current()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// sessionLife is how long a browser may look after it has shown the token.
const sessionLife = 12 * time.Hour

// session returns what a browser is given for the token: when it ends, sealed
// with the token. The token cannot be found from it, and a new token ends it.
func (t *Token) session(now time.Time) string {
	ends := strconv.FormatInt(now.Add(sessionLife).Unix(), 10)
	return ends + "." + seal(t.current(), ends)
}

// holds tells whether a session was made with the token and has not ended.
func (t *Token) holds(session string, now time.Time) bool {
	ends, mac, _ := strings.Cut(session, ".")
	at, err := strconv.ParseInt(ends, 10, 64)
	return err == nil && now.Unix() < at && hmac.Equal([]byte(mac), []byte(seal(t.current(), ends)))
}

func seal(token, ends string) string {
	key := sha256.Sum256([]byte("tonnage page session\n" + token))
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte(ends))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
