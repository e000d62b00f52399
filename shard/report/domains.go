package report

import (
	tonnage "github.com/tonnage/tonnage/api/tonnage/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// A shard that has lost its domains says with its offers which ones it has left. The
// coordinator answers with its own, and when they are others it tells the shard to take all of them:
//
//	left = coordinator's     confirmed
//	left ≠ coordinator's     what is left is dropped once, and the instructions are carried out
//	no answer about domains  confirmed: the coordinator does not know the question

// left returns the sum of the domains that the shard has.
func (c *Client) left() (sum model.DomainSum) {
	for _, d := range c.o.Domains.Domains() {
		sum.Add(d.Key, d.Value)
	}
	return sum
}

// compare hears which domains the shard has.
func (c *Client) compare(reply *tonnage.OfferReply) {
	theirs := reply.GetDomains()
	if theirs == nil {
		c.believe("the coordinator does not compare domains")
		return
	}
	left := c.left()
	if left == (model.DomainSum{Count: int(theirs.GetCount()), Hash: theirs.GetHash()}) {
		c.o.Domains.Confirm(reply.GetAnyDomains())
		c.o.Log.Warn("the coordinator has confirmed the domains of this shard", "domains", left.Count)
		return
	}
	if c.dropped {
		return
	}
	c.dropped = true
	c.o.Log.Warn("the coordinator knows other domains of this shard than it has left, and tells it all of them", "left", left.Count, "domains", theirs.GetCount())
	for _, d := range c.o.Domains.Domains() {
		if err := c.o.Shard.UnassignDomain(d); err != nil {
			c.o.Log.Error("a domain that was left is kept; if it is not this shard's, unassign it with tonnage ctl", "error", err)
		}
	}
}

// believe takes what is left for all there is.
func (c *Client) believe(why string) {
	left := c.left()
	c.o.Domains.Confirm(left.Count > 0)
	c.o.Log.Warn("the domains that this shard has left are taken for its own", "domains", left.Count, "because", why)
}
