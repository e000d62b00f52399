package provider

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/driver"
)

// The file's buckets and keys.
var (
	bucketMeta     = []byte("meta")
	bucketOffers   = []byte("offers")   // key → savedOffer
	bucketMachines = []byte("machines") // id → record
	bucketBlobs    = []byte("blobs")    // id → bootstrap data of a Configure under way
	bucketTokens   = []byte("tokens")
	keyBooks       = []byte("books")
)

// format is what a file says that this package reads.
const format = "tonnage-records-1"

// savedOffer is an offer in the file.
type savedOffer struct {
	Offer driver.Offer
	Stock stock
	Real  model.Resources `json:",omitempty"`
	Free  []uint64        // numbers of slots that were never anything else
}

// load reads the file, or begins it.
func (p *Provider) load() error {
	var instance [16]byte
	if _, err := rand.Read(instance[:]); err != nil {
		return err
	}
	p.table = newTable(binary.BigEndian.Uint64(instance[:]) | 1)
	return p.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketOffers, bucketMachines, bucketBlobs, bucketTokens} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		text := tx.Bucket(bucketMeta).Get(keyBooks)
		if text == nil {
			p.newest = true
			p.books = books{Format: format, Nonce: strconv.FormatUint(uint64(binary.BigEndian.Uint32(instance[8:])), 36)}
			return p.saveBooks(tx)
		}
		if err := json.Unmarshal(text, &p.books); err != nil {
			return fmt.Errorf("the counters: %w", err)
		}
		if p.books.Format != format {
			return fmt.Errorf("the file has format %q, this program reads %q; give each its own folder", p.books.Format, format)
		}
		if last := p.cfg.Last; last != "" && last != p.books.Nonce {
			return errOlder
		}
		p.newest = p.cfg.Last != "" || p.books.Sequence == 0
		return p.read(tx)
	})
}

// read takes over what the file holds.
func (p *Provider) read(tx *bbolt.Tx) error {
	byKey := map[driver.Key]*savedOffer{}
	err := tx.Bucket(bucketOffers).ForEach(func(k, v []byte) error {
		var s savedOffer
		if err := json.Unmarshal(v, &s); err != nil {
			return fmt.Errorf("offer %q: %w", k, err)
		}
		if string(s.Offer.Template) == "null" { // none, as JSON has it
			s.Offer.Template = nil
		}
		o := &offer{Offer: s.Offer, stock: s.Stock, real: s.Real}
		o.writeBodies()
		p.offers[s.Offer.Key], byKey[s.Offer.Key] = o, &s
		return nil
	})
	if err != nil {
		return err
	}
	for key, s := range byKey {
		for _, n := range s.Free {
			p.addFree(p.offers[key], row{id: p.id(key.Pool, n)})
		}
	}
	err = tx.Bucket(bucketMachines).ForEach(func(k, v []byte) error {
		r := &record{}
		if err := json.Unmarshal(v, r); err != nil {
			return fmt.Errorf("machine %q: %w; restore the file from a copy, or begin with a new folder", k, err)
		}
		o := p.offers[r.Key]
		if o == nil || r.ID != string(k) {
			return fmt.Errorf("machine %q is of no offer in the file; restore it from a copy, or begin with a new folder", k)
		}
		x := row{id: r.ID, rec: r, blob: append([]byte(nil), tx.Bucket(bucketBlobs).Get(k)...)}
		if r.free() {
			p.addFree(o, x)
		} else {
			p.addUsed(o, x)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return tx.Bucket(bucketTokens).ForEach(p.fence.Load)
}

// id returns the id of the n-th machine of this file.
func (p *Provider) id(pool string, n uint64) string {
	return pool + "-" + p.books.Nonce + "-" + strconv.FormatUint(n, 10)
}

// number returns the number in an id of this file.
func (p *Provider) number(pool, id string) (uint64, bool) {
	tail, ok := strings.CutPrefix(id, pool+"-"+p.books.Nonce+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(tail, 10, 64)
	return n, err == nil
}

// save writes what is pending, if anything is, in one transaction.
func (p *Provider) save() error {
	offers := make([]*offer, 0, 8)
	for _, o := range p.offers {
		if o.dirty {
			offers = append(offers, o)
		}
	}
	if len(offers) == 0 && len(p.pending.rows) == 0 && len(p.pending.blobs) == 0 && !p.pending.books && !p.fence.Unsaved() {
		return nil
	}
	start := time.Now()
	err := p.db.Update(func(tx *bbolt.Tx) error {
		for _, o := range offers {
			if err := p.saveOffer(tx, o); err != nil {
				return err
			}
		}
		for id := range p.pending.rows {
			if err := p.saveRow(tx, id); err != nil {
				return err
			}
		}
		for id := range p.pending.blobs {
			if err := p.saveBlob(tx, id); err != nil {
				return err
			}
		}
		b := tx.Bucket(bucketTokens)
		return errors.Join(p.saveBooks(tx), p.fence.Save(b.Put, b.Delete))
	})
	for _, o := range offers {
		o.dirty = false
	}
	clear(p.pending.rows)
	clear(p.pending.blobs)
	p.pending.books = false
	p.stats.Transactions++
	p.stats.DiskTime += time.Since(start)
	return err
}

func (p *Provider) saveBooks(tx *bbolt.Tx) error { return putJSON(tx, bucketMeta, keyBooks, &p.books) }

func (p *Provider) saveOffer(tx *bbolt.Tx, o *offer) error {
	key := fmt.Appendf(nil, "%q %q %q %d", o.Pool, o.InstanceType, o.Zone, o.CapacityType)
	if o.pool == nil && o.total == 0 {
		delete(p.offers, o.Key)
		return tx.Bucket(bucketOffers).Delete(key)
	}
	s := savedOffer{Offer: o.Offer, Stock: o.stock.saved(), Real: o.real}
	for _, i := range o.free {
		if x := &p.table.rows[i]; x.rec == nil {
			n, _ := p.number(o.Pool, x.id)
			s.Free = append(s.Free, n)
		}
	}
	return putJSON(tx, bucketOffers, key, &s)
}

func (p *Provider) saveRow(tx *bbolt.Tx, id string) error {
	i, ok := p.table.byID[id]
	if !ok || p.table.rows[i].rec == nil {
		return tx.Bucket(bucketMachines).Delete([]byte(id))
	}
	return putJSON(tx, bucketMachines, []byte(id), p.table.rows[i].rec)
}

func (p *Provider) saveBlob(tx *bbolt.Tx, id string) error {
	b := tx.Bucket(bucketBlobs)
	if i, ok := p.table.byID[id]; ok && len(p.table.rows[i].blob) > 0 {
		return b.Put([]byte(id), p.table.rows[i].blob)
	}
	return b.Delete([]byte(id))
}

func putJSON(tx *bbolt.Tx, bucket, key []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s %q: %w", bucket, key, err)
	}
	return tx.Bucket(bucket).Put(key, text)
}

// job is something for the writer to do.
type job struct {
	do   func() error
	err  error
	done chan struct{} // closed when it is done, and on disk
}

// submit has the writer do something, and waits until that is on disk. When ctx ends first, it
// may be done all the same.
func (p *Provider) submit(ctx context.Context, do func() error) error {
	j := &job{do: do, done: make(chan struct{})}
	select {
	case p.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return p.ended()
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
	}
	select {
	case <-j.done: // in its last transaction
		return j.err
	default:
		return p.ended()
	}
}

// write carries out jobs until the provider is closed or the file breaks.
func (p *Provider) write() {
	defer close(p.done)
	batch := make([]*job, 0, batchMax)
	for {
		batch = batch[:0]
		select {
		case <-p.stop:
			return
		case j := <-p.jobs:
			batch = append(batch, j)
		}
		for len(batch) < batchMax && len(p.jobs) > 0 {
			batch = append(batch, <-p.jobs)
		}
		if p.commit(batch) != nil {
			return
		}
	}
}

// commit carries out a batch and has it on disk before anybody sees anything of it.
func (p *Provider) commit(batch []*job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range batch {
		j.err = j.do()
	}
	p.stats.Calls += uint64(len(batch))
	if p.pending.account {
		p.settle()
	}
	if err := p.save(); err != nil {
		p.fault = fmt.Errorf("%w: %w", calls.ErrBroken, err)
		for _, j := range batch {
			j.err = p.fault
		}
	}
	for _, j := range batch {
		close(j.done)
	}
	return p.fault
}

// ended says why the writer does no more.
func (p *Provider) ended() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fault != nil {
		return p.fault
	}
	return calls.ErrClosed
}

// closed says why nothing is answered any more, nil = it is.
func (p *Provider) closed() error {
	if p.fault != nil {
		return p.fault
	}
	select {
	case <-p.stop:
		return calls.ErrClosed
	default:
		return nil
	}
}
