package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
)

const (
	// LookIntervalDefault is how often a shard is asked what it decided: each question costs it a cycle.
	LookIntervalDefault = time.Minute
	// lookTimeout bounds one question.
	lookTimeout = 20 * time.Second
	// viewsMax bounds what one answer may have: more rows than a shard takes from a cluster.
	viewsMax = 1 << 16
)

// inspected is a session whose connection is also asked.
type inspected struct {
	bigfleet.Shard_SessionClient
	read bigfleet.ShardReadClient
}

// Inspect implements Inspector.
func (x inspected) Inspect(ctx context.Context, cluster string) ([]*bigfleet.NeedView, error) {
	stream, err := x.read.InspectNeeds(ctx, &bigfleet.InspectNeedsRequest{ClusterId: cluster})
	if err != nil {
		return nil, err
	}
	var out []*bigfleet.NeedView
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if n := frame.GetNeed(); n != nil {
			if len(out) == viewsMax {
				return nil, fmt.Errorf("the shard tells of more than %d needs", viewsMax)
			}
			out = append(out, n)
		}
	}
}

// look asks now and then what the shard decided. A shard that does not answer such questions is left alone.
func (s *live) look(ctx context.Context) error {
	asked, can := s.stream.(Inspector)
	if !can || s.cfg.LookInterval <= 0 || s.cfg.Decided == nil {
		return nil
	}
	select {
	case <-s.start:
	case <-ctx.Done():
		return nil
	}
	wait := s.cfg.LookInterval / 4 // for the first roll-up to be heard and decided about
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		within, cancel := context.WithTimeout(ctx, lookTimeout)
		views, err := asked.Inspect(within, s.cfg.ClusterID)
		cancel()
		switch status.Code(err) {
		case codes.OK:
			s.cfg.Decided(views)
		case codes.Unimplemented, codes.PermissionDenied:
			s.cfg.Log.Info("the shard does not tell what it decides; requests get no condition Satisfied", "why", err)
			return nil
		default:
			s.cfg.Log.Debug("the shard does not tell what it decided; it is asked again", "error", err)
		}
		// Operators that began together must not ask together for ever.
		wait = s.cfg.LookInterval - s.cfg.LookInterval/8 + rand.N(s.cfg.LookInterval/4)
	}
}
