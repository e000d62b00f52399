package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/tonnage/tonnage/shard"
)

// AnswersMax is for how many answers of one kind a session may be waited for
// at a time.
const AnswersMax = 1 << 12

// waiters are those who wait for answers of an operator, by the id of what was
// asked. The zero value is ready.
type waiters[A any] struct {
	mu   sync.Mutex
	byID map[string]chan A
}

// newID returns 16 hexadecimal digits that nobody can guess.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ask makes an id, hands it to send, and waits for the answer until ctx or the
// session ends.
func (w *waiters[A]) ask(ctx context.Context, l *link, send func(id string) bool) (answer A, err error) {
	id, ch := newID(), make(chan A, 1)
	if !w.add(id, ch) {
		return answer, fmt.Errorf("%w: %d questions wait for it already", shard.ErrNoSession, AnswersMax)
	}
	defer w.drop(id)
	if !send(id) {
		return answer, fmt.Errorf("%w: it does not read what it is sent", shard.ErrNoSession)
	}
	select {
	case answer = <-ch:
		return answer, nil
	case <-l.done:
		return answer, fmt.Errorf("%w: its session ended before it answered", shard.ErrNoSession)
	case <-ctx.Done():
		return answer, fmt.Errorf("the operator has not answered: %w", ctx.Err())
	}
}

func (w *waiters[A]) add(id string, ch chan A) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byID) >= AnswersMax {
		return false
	}
	if w.byID == nil {
		w.byID = map[string]chan A{}
	}
	w.byID[id] = ch
	return true
}

func (w *waiters[A]) drop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byID, id)
}

// answer hands an answer to the caller that waits for it; false if no caller
// waits, or if the question has been answered.
func (w *waiters[A]) answer(id string, a A) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch, ok := w.byID[id]
	if ok {
		delete(w.byID, id)
		ch <- a
	}
	return ok
}
