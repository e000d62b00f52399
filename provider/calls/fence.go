package calls

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
)

// TokensMax is how many pairs of shard and machine a fence knows tokens of.
const TokensMax = 1 << 21

// Fence keeps the newest token of each shard and machine. Not safe for concurrent use.
type Fence struct {
	newest map[tokenKey]epoch.Token
	epochs map[string]int64         // the highest of each shard that has a token
	fresh  map[tokenKey]epoch.Token // not yet saved
	gone   []tokenKey               // forgotten, and perhaps saved
}

// tokenKey names a machine to one shard.
type tokenKey struct{ shard, machine string }

// NewFence returns a fence that knows no token.
func NewFence() *Fence {
	return &Fence{newest: map[tokenKey]epoch.Token{}, epochs: map[string]int64{}, fresh: map[tokenKey]epoch.Token{}}
}

// Admit lets calls pass that are newer than all that passed before, and notes
// that they did. The error wraps shard.ErrFenced or ErrFull.
func (f *Fence) Admit(c *Call) error {
	if c.Shard == "" && c.Token == (epoch.Token{}) {
		return nil
	}
	key := tokenKey{c.Shard, c.Machine}
	last, known := f.newest[key]
	t := c.Token
	if known && (t.Epoch < last.Epoch || t.Epoch == last.Epoch && t.Sequence <= last.Sequence) {
		return fmt.Errorf("%s machine %q for shard %q with epoch %d, sequence %d, which is not newer than epoch %d, sequence %d: %w",
			c.Op, c.Machine, c.Shard, t.Epoch, t.Sequence, last.Epoch, last.Sequence, shard.ErrFenced)
	}
	if newest := f.epochs[c.Shard]; c.WholeShard && t.Epoch < newest {
		return fmt.Errorf("%s machine %q for shard %q with epoch %d, of which epoch %d has been seen: %w", c.Op, c.Machine, c.Shard, t.Epoch, newest, shard.ErrFenced)
	}
	if !known && len(f.newest) >= TokensMax {
		return ErrFull
	}
	f.set(key, t)
	f.fresh[key] = t
	return nil
}

// set notes that a token has passed.
func (f *Fence) set(key tokenKey, t epoch.Token) {
	f.newest[key] = t
	f.epochs[key.shard] = max(f.epochs[key.shard], t.Epoch)
}

// Forget drops the tokens of a machine whose id is never used again. The newest epoch of each
// shard stays known.
func (f *Fence) Forget(machine string) {
	for shard := range f.epochs {
		key := tokenKey{shard, machine}
		if _, ok := f.newest[key]; ok {
			delete(f.newest, key)
			delete(f.fresh, key)
			f.gone = append(f.gone, key)
		}
	}
}

// Seen notes a token that passed elsewhere, as before the tokens were lost.
func (f *Fence) Seen(shard, machine string, t epoch.Token) {
	key := tokenKey{shard, machine}
	if last, known := f.newest[key]; shard == "" || len(f.newest) >= TokensMax || known && (t.Epoch < last.Epoch || t.Epoch == last.Epoch && t.Sequence <= last.Sequence) {
		return
	}
	f.set(key, t)
	f.fresh[key] = t
}

// Len returns the number of pairs of shard and machine.
func (f *Fence) Len() int { return len(f.newest) }

// Unsaved tells whether there is anything for Save.
func (f *Fence) Unsaved() bool { return len(f.fresh) > 0 || len(f.gone) > 0 }

// Save has put write each token that has passed since the last Save, as a key and a value
// that Load reads, and remove take those out that were forgotten.
func (f *Fence) Save(put func(key, value []byte) error, remove func(key []byte) error) error {
	for _, k := range f.gone {
		if err := remove(k.encode()); err != nil {
			return err
		}
	}
	f.gone = f.gone[:0]
	for k, t := range f.fresh {
		if err := put(k.encode(), encodeToken(t)); err != nil {
			return err
		}
	}
	clear(f.fresh)
	return nil
}

// Load takes over what Save wrote.
func (f *Fence) Load(key, value []byte) error {
	k, t, err := decodeToken(key, value)
	if err != nil {
		return err
	}
	f.set(k, t)
	return nil
}

func (k tokenKey) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(k.shard)))
	return append(append(b, k.shard...), k.machine...)
}

var errToken = errors.New("a token is not what this program writes")

func decodeToken(k, v []byte) (tokenKey, epoch.Token, error) {
	n, size := binary.Uvarint(k)
	if size <= 0 || n > uint64(len(k)-size) || len(v) != 16 {
		return tokenKey{}, epoch.Token{}, errToken
	}
	name := string(k[size:])
	tok := epoch.Token{Epoch: int64(binary.BigEndian.Uint64(v)), Sequence: int64(binary.BigEndian.Uint64(v[8:]))}
	return tokenKey{name[:n], name[n:]}, tok, nil
}

func encodeToken(t epoch.Token) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(t.Epoch)), uint64(t.Sequence))
}
