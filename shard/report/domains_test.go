package report_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/report"
)

// keeper is a shard that has lost domains.
type keeper struct {
	fakeShard
	lost, ever bool
}

func (k *keeper) Lost() bool { return k.lost }

func (k *keeper) Domains() []shard.Domain {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.domains)
}

func (k *keeper) Confirm(ever bool) { k.lost, k.ever = false, ever }

func (k *keeper) UnassignDomain(d shard.Domain) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.domains = slices.DeleteFunc(k.domains, func(x shard.Domain) bool { return x == d })
	return nil
}

// generous is an owner that has something to offer.
type generous struct{ report.Owner }

func (generous) HandOvers(context.Context) ([]shard.HandOver, error) { return nil, nil }
func (generous) Offers() []shard.Offer                               { return make([]shard.Offer, 1) }
func (generous) Settle([]string)                                     {}

// comparer is a coordinator that knows the domains of a shard.
type comparer struct {
	coordinator
	tonnage.UnimplementedFleetServer
	domains []string
	others  bool // other shards have domains
	silent  bool // it does not compare
	asked   atomic.Pointer[tonnage.OfferRequest]
	again   bool // it has told the shard all domains again
}

func (c *comparer) ReportShard(_ context.Context, r *pb.ShardReport) (*pb.ReportAck, error) {
	ack := &pb.ReportAck{CoordinatorTerm: 1, Acknowledged: true}
	for i, d := range c.domains {
		if c.again && len(r.GetInstructionAcks()) == 0 {
			ack.Instructions = append(ack.Instructions, assign(string(rune('1'+i)), 1, d))
		}
	}
	return ack, nil
}

func (c *comparer) Offer(_ context.Context, r *tonnage.OfferRequest) (*tonnage.OfferReply, error) {
	c.asked.Store(r)
	out := &tonnage.OfferReply{CoordinatorTerm: 1, Acknowledged: true}
	if r.GetLostDomains() == nil || c.silent {
		return out, nil
	}
	sum := model.DomainSum{}
	for _, d := range c.domains {
		sum.Add("zone", d)
	}
	out.Domains, out.AnyDomains = &tonnage.DomainSet{Count: int32(sum.Count), Hash: sum.Hash}, c.others || sum.Count > 0
	c.again = sum != model.DomainSum{Count: int(r.GetLostDomains().GetCount()), Hash: r.GetLostDomains().GetHash()}
	return out, nil
}

// TestLostDomainsAreConfirmed: by the coordinator's answer, and by one that does not
// compare them; nothing is offered before.
func TestLostDomainsAreConfirmed(t *testing.T) {
	for _, c := range []struct {
		name            string
		left, theirs    []string
		others          bool
		silent, unknown bool
		rounds          int
		want            []string
		ever            bool
	}{
		{name: "the same", left: []string{"a", "b"}, theirs: []string{"b", "a"}, rounds: 1, want: []string{"a", "b"}, ever: true},
		{name: "others", left: []string{"a", "x"}, theirs: []string{"a", "b"}, rounds: 2, want: []string{"a", "b"}, ever: true},
		{name: "all lost", theirs: []string{"a", "b"}, rounds: 2, want: []string{"a", "b"}, ever: true},
		{name: "it has none", left: []string{"x"}, others: true, rounds: 2, ever: true},
		{name: "nobody has any", rounds: 1},
		{name: "not compared", left: []string{"a"}, theirs: []string{"b"}, silent: true, rounds: 1, want: []string{"a"}, ever: true},
		{name: "offers are not known", left: []string{"a"}, unknown: true, rounds: 1, want: []string{"a"}, ever: true},
		{name: "offers are not known, and none left", unknown: true, rounds: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := &comparer{domains: c.theirs, others: c.others, silent: c.silent}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer()
			pb.RegisterCoordinatorServer(s, at)
			if !c.unknown {
				tonnage.RegisterFleetServer(s, at)
			}
			go func() { _ = s.Serve(l) }()
			t.Cleanup(s.Stop)
			k := &keeper{lost: true}
			for _, d := range c.left {
				k.domains = append(k.domains, shard.Domain{Key: "zone", Value: d})
			}
			client, err := report.New(report.Options{
				Shard: k, Owner: generous{}, Domains: k, ID: "s", Addresses: []string{l.Addr().String()},
				Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			for round := range c.rounds {
				if !k.lost {
					t.Fatalf("confirmed after %d rounds", round)
				}
				client.Exchange(t.Context())
				if asked := at.asked.Load(); asked != nil && (len(asked.GetOffers()) > 0 || asked.GetLostDomains() == nil) {
					t.Errorf("a shard that has lost its domains says %v", asked)
				}
			}
			var got []string
			for _, d := range k.Domains() {
				got = append(got, d.Value)
			}
			if slices.Sort(got); k.lost || !slices.Equal(got, c.want) || k.ever != c.ever {
				t.Errorf("lost %v, domains %q, want %q; ever %v", k.lost, got, c.want, k.ever)
			}
			client.Exchange(t.Context())
			if asked := at.asked.Load(); !c.unknown && (asked.GetLostDomains() != nil || len(asked.GetOffers()) != 1) {
				t.Errorf("once confirmed it says %v", asked)
			}
		})
	}
}
